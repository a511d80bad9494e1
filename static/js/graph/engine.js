// elkjs, loaded with the first graph; it lays out in a worker, so that the page stays usable.

const { elk, elkWorker } = document.querySelector("script[data-elk]").dataset;
let engine = null;

export async function layOut(request) {
  engine ||= start();
  try {
    return await (await engine)(request);
  } catch (problem) {
    engine = null; // the next graph starts it anew
    throw problem;
  }
}

async function start() {
  await import(elk); // not a module: it sets window.ELK
  let fail;
  const failed = new Promise((_, reject) => {
    fail = reject;
  });
  const instance = new window.ELK({
    algorithms: ["layered"],
    workerFactory: () => {
      const worker = new Worker(elkWorker);
      worker.onerror = fail;
      return worker;
    },
  });
  return (request) => Promise.race([instance.layout(request), failed]);
}
