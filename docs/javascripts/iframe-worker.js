// The search of the site runs in a Worker, which browsers do not load from a file. There it runs in a frame of the page:
// a class with the interface of Worker that the theme looks for by the name IFrameWorker.
"use strict";

if (location.protocol === "file:") {
  const load = (inner, url) =>
    new Promise((done, fail) => {
      const script = inner.document.createElement("script");
      script.src = String(url);
      script.onload = () => done();
      script.onerror = () => fail(new Error(`${url}: cannot be loaded`));
      inner.document.head.append(script);
    });

  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inner = this.frame.contentWindow;
      this.inner.importScripts = async (...urls) => {
        for (const each of urls) await load(this.inner, each);
      };
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = load(this.inner, url);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
