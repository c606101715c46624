// SPDX-License-Identifier: Apache-2.0
// Keeps the page for a reload without a network; emotion.js keeps the model. The page gets the headers without which a browser allows
// one thread alone: most static hosts cannot send them.
const SHELL = ["./", "index.html", "model.json", "emotion.js"];
const HEADERS = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const isolated = (answer) => new Response(answer.body, { status: answer.status, statusText: answer.statusText, headers: { ...Object.fromEntries(answer.headers), ...HEADERS } });
self.addEventListener("install", (event) => event.waitUntil(caches.open("hf-emotion").then((cache) => cache.addAll(SHELL)).then(() => self.skipWaiting())));
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const address = event.request.url.split(/[?#]/)[0];
  if (event.request.method !== "GET" || !SHELL.some((name) => new URL(name, self.registration.scope).href === address)) return;
  event.respondWith((async () => {
    const cache = await caches.open("hf-emotion");
    try {
      const answer = await fetch(event.request);
      if (answer.ok) await cache.put(address, answer.clone());
      return isolated(answer);
    } catch (error) {
      const kept = await cache.match(address);
      if (kept) return isolated(kept);
      throw error;
    }
  })());
});
