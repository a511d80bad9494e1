// Draws the API's description with Swagger UI, which was loaded before this file.

const place = document.getElementById("api-description");
const { schema, csrf } = place.dataset;

function withToken(request) {
  // Who is signed in here is asked by cookie, and then Django wants the token of the page.
  if (!["GET", "HEAD", undefined].includes(request.method)) {
    request.headers["X-CSRFToken"] = csrf;
  }
  return request;
}

// A path is a link inside the button that opens its operation: two in one place, which nobody can tell apart
// by keyboard or by ear. Opening an operation puts its address into the address bar anyway.
function pathsAsText() {
  return {
    wrapComponents: {
      DeepLink: (_, system) => ({ text }) => system.React.createElement("span", null, text),
    },
  };
}

window.SwaggerUIBundle({
  url: schema,
  domNode: place,
  deepLinking: true,
  plugins: [pathsAsText],
  validatorUrl: null,
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  requestInterceptor: withToken,
});
