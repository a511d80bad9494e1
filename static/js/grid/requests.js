// Requests of the grid, one after the other.

let queue = Promise.resolve();
let waiting = 0;

export const isWaiting = () => waiting > 0;

export function enqueue(work) {
  waiting += 1;
  queue = queue
    .then(work)
    .catch((error) => console.error(error))
    .then(() => {
      waiting -= 1;
    });
}

function token() {
  const cookie = document.cookie.match(/(?:^|; )csrftoken=([^;]+)/);
  return cookie ? decodeURIComponent(cookie[1]) : document.querySelector("[name=csrfmiddlewaretoken]").value;
}

export const post = (address, values) =>
  fetch(address, {
    method: "POST",
    body: new URLSearchParams(values),
    headers: { "HX-Request": "true", "HX-Current-URL": window.location.href, "X-CSRFToken": token() },
  });
