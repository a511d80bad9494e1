// Draws the API's description with the tool that was loaded before this file.
(function () {
  "use strict";

  const place = document.getElementById("api-description");
  const { tool, schema, csrf, nonce } = place.dataset;

  function withToken(request) {
    // Who is signed in here is asked by cookie, and then Django wants the token of the page.
    if (!["GET", "HEAD", undefined].includes(request.method)) {
      request.headers["X-CSRFToken"] = csrf;
    }
    return request;
  }

  if (tool === "redoc") {
    // The search would start a worker from a blob, which the content policy forbids.
    window.Redoc.init(schema, { nonce, disableSearch: true, nativeScrollbars: true, hideDownloadButton: true }, place);
  } else {
    window.SwaggerUIBundle({
      url: schema,
      domNode: place,
      deepLinking: true,
      validatorUrl: null,
      presets: [window.SwaggerUIBundle.presets.apis],
      layout: "BaseLayout",
      requestInterceptor: withToken,
    });
  }
})();
