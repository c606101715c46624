// SPDX-License-Identifier: Apache-2.0
// Runs a folder that `hf-emotion export MODEL --web FOLDER` wrote, in a worker. See emotion.d.ts for the types.
//   import { load } from "./emotion.js";
//   const model = await load("https://example.org/folder/");
//   const [labels] = await model.predict(["What a day!"]); // [{ label: "joy", score: 0.93 }]
const FORMAT = 1; // of model.json
const CACHE = "hf-emotion";

/** Load the folder at `url`: its files, checked against their SHA-384, the runtime and the tokenizer. */
export async function load(url = ".", { onProgress = () => {}, device, threads, signal } = {}) {
  const base = new URL(url.endsWith("/") ? url : `${url}/`, globalThis.document?.baseURI ?? globalThis.location?.href);
  const facts = JSON.parse(new TextDecoder().decode(await getFile(base, { name: "model.json" }, () => {}, signal)));
  if (facts.format !== FORMAT) {
    throw new Error(`model.json has format ${facts.format}, and this emotion.js reads format ${FORMAT}: export the model again.`);
  }
  const gpu = device !== "wasm" && "Suspending" in WebAssembly && (await navigator.gpu?.requestAdapter().catch(() => null));
  const wanted = { ...facts.files, ...facts.runtimes[gpu ? "webgpu" : "wasm"] };
  const total = Object.values(wanted).reduce((sum, file) => sum + file.bytes, 0);
  let loaded = 0;
  const others = new AbortController(); // without one file the others are not needed
  signal?.addEventListener("abort", () => others.abort());
  const report = (bytes) => others.signal.aborted || onProgress({ loaded: (loaded += bytes), total });
  const read = async ([role, file]) => [role, await getFile(base, file, report, others.signal)];
  const files = Object.fromEntries(await Promise.all(Object.entries(wanted).map(read)).catch((error) => { others.abort(); throw error; }));
  await forget(base, wanted).catch(() => {}); // what an earlier export left in the cache
  const cores = globalThis.crossOriginIsolated ? Math.min(navigator.hardwareConcurrency ?? 1, 4) : 1;
  const model = new Model(facts, gpu ? "webgpu" : "wasm");
  const start = { facts, files, threads: threads ?? cores, gpu: Boolean(gpu) };
  const { device: found } = await model.ask({ start }).catch((error) => { model.close(); throw error; });
  return Object.assign(model, { device: found });
}

/** A loaded model; `predict` may be called again before the last call has ended. */
class Model {
  constructor(facts, device) {
    Object.assign(this, { facts, device, labels: facts.labels, task: facts.task });
    this.worker = new Worker(URL.createObjectURL(new Blob([`(${work})()`], { type: "text/javascript" })));
    this.waiting = new Map();
    this.count = 0;
    this.worker.onmessage = ({ data: { id, result, error, progress } }) => {
      const { resolve, reject, onProgress } = this.waiting.get(id) ?? {};
      if (progress !== undefined) return void onProgress?.(progress);
      this.waiting.delete(id);
      if (error === undefined) resolve?.(result);
      else reject?.(new Error(error));
    };
    this.worker.onerror = (event) => this.close(`the worker failed: ${event.message}`);
  }

  ask(message, onProgress) {
    const id = this.count++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, onProgress });
      this.worker.postMessage({ id, ...message });
    });
  }

  /** The answer to each text, as `predictor(texts)` gives it in Python. */
  async predict(texts, { onProgress, signal, ...options } = {}) {
    signal?.throwIfAborted();
    const id = this.count;
    signal?.addEventListener("abort", () => this.worker.postMessage({ cancel: id }));
    return this.ask({ texts: [texts].flat(), options }, onProgress);
  }

  /** What the model cannot read of each text: the share of unknown words, a language that is not its own, and whether it was cut. */
  async unread(texts) {
    return this.ask({ unread: [texts].flat() });
  }

  close(reason = "the model is closed") {
    this.worker.terminate();
    for (const { reject } of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
  }
}

const keyOf = (base, file) => `${new URL(file.url ?? file.name, base)}?${encodeURIComponent(file.integrity ?? "")}`;

/** The content of a file, unpacked: from the browser's cache, over the network, or for a page from a disk out of a script. */
async function getFile(base, file, report, signal) {
  const address = new URL(file.url ?? file.name, base), remote = file.url?.startsWith("https:") ?? false;
  const onDisk = address.protocol === "file:";
  const cache = onDisk || !file.integrity ? null : await globalThis.caches?.open(CACHE).catch(() => null);
  const kept = await cache?.match(keyOf(base, file));
  let bytes;
  try {
    if (kept) report((bytes = new Uint8Array(await kept.arrayBuffer())).length);
    else if (onDisk) report((bytes = await fromScript(base, file.name)).length);
    else bytes = await download(address, remote ? { integrity: file.integrity, signal } : { signal }, report);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error(`${file.name} could not be loaded (${error.message}): check the connection and try again.`);
  }
  let content = bytes;
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) { // a server may have unpacked it already
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    content = new Uint8Array(await new Response(unpacked).arrayBuffer());
  }
  if (file.integrity && globalThis.crypto?.subtle) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-384", content));
    if (`sha384-${btoa(String.fromCharCode(...digest))}` !== file.integrity) {
      throw new Error(`${file.name} is damaged or of another export: copy the whole folder anew.`);
    }
  }
  if (!kept) await cache?.put(keyOf(base, file), new Response(bytes)).catch(() => {}); // no room
  return content;
}

async function download(address, options, report) {
  const answer = await fetch(address, { credentials: "omit", ...options });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const parts = [], reader = answer.body.getReader();
  for (let part; !(part = await reader.read()).done; report(part.value.length)) parts.push(part.value);
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** Pages from a disk may not fetch files; file/NAME.js holds the same bytes in base64. */
async function fromScript(base, name) {
  const script = document.createElement("script");
  script.src = new URL(`file/${name}.js`, base);
  await new Promise((resolve, reject) => {
    script.onload = resolve;
    script.onerror = () => reject(new Error("a page exported without --vendor needs a server: python -m http.server"));
    document.head.append(script);
  });
  script.remove();
  const text = atob(globalThis.hfEmotionFiles[name]), bytes = new Uint8Array(text.length);
  delete globalThis.hfEmotionFiles[name];
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function forget(base, wanted) {
  const cache = await caches.open(CACHE), keep = new Set(Object.values(wanted).map((file) => keyOf(base, file)));
  for (const { url } of await cache.keys()) if (url.startsWith(base.href) && url.includes("?sha384") && !keep.has(url)) await cache.delete(url);
}

/** What the worker runs; it may use nothing from outside. */
function work() {
  let facts, english, tokenizer, identifier, session, ort, bert = false;
  const cancelled = new Set();
  const breathe = () => new Promise((resolve) => setTimeout(resolve)); // lets messages in

  self.onmessage = async ({ data: { id, start, texts, unread, options, cancel } }) => {
    if (cancel !== undefined) return void cancelled.add(cancel);
    try {
      self.postMessage({ id, result: start ? await begin(start) : unread ? unread.map(unreadOf) : await predict(id, texts, options) });
    } catch (error) {
      self.postMessage({ id, error: error?.message ?? String(error) });
    }
  };

  async function begin({ facts: given, files, threads, gpu }) {
    const module = (bytes) => import(URL.createObjectURL(new Blob([bytes], { type: "text/javascript" })));
    facts = given;
    english = new Set(facts.english);
    const { Tokenizer } = await module(files.tokenizers);
    const parsed = (bytes) => JSON.parse(new TextDecoder().decode(bytes)), json = parsed(files.tokenizer);
    identifier = files.languages && parsed(files.languages);
    if (identifier) identifier.grams = new Map(Object.entries(identifier.grams));
    bert = JSON.stringify(json.normalizer ?? {}).includes('"BertNormalizer"');
    tokenizer = new Tokenizer(json, facts.tokenizer_config);
    ort = await module(files.ort);
    Object.assign(ort.env.wasm, { numThreads: threads, wasmBinary: files.wasm.buffer });
    ort.env.logLevel = "error";
    const open = (...executionProviders) => ort.InferenceSession.create(files.graph, { executionProviders, logSeverityLevel: 3 });
    const check = async () => (await run([{ ids: [facts.pad_token_id, facts.pad_token_id], mask: [1, 1] }], ["logits"]))[0];
    if (gpu) {
      try {
        session = await open("webgpu", "wasm");
        await check();
        return { device: "webgpu" };
      } catch { /* the processor can do what the graphics card cannot */ }
    }
    session = await open("wasm");
    await check();
    return { device: "wasm" };
  }

  // Texts

  const WINDOWS_1252 = "€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ";
  const isReadable = (text) => typeof text === "string" && /[^\s\x1c-\x1f\x85\p{Cc}\p{Cf}]/u.test(text) && !/\p{Cs}/u.test(text);
  const composed = (text) => text.replace(/[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]/g, (c) => WINDOWS_1252[c.charCodeAt() - 128]).normalize("NFC");
  // Where tokenizers.js 0.2.0 differs from the tokenizers of Python: Han beyond U+FFFF are words, and each Σ becomes σ.
  const HAN = /[\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;
  const likePython = (text) => (bert ? text.replace(HAN, " $& ").replaceAll("Σ", "σ") : text);

  /** Numbers of special tokens before and behind the text. */
  function borders(ids) {
    const special = tokenizer.encode("").ids;
    let before = 0;
    while (before < special.length && special[before] === ids[before]) before++;
    return [before, special.length - before];
  }

  /** A text in windows of `max_length` tokens, as `split_row` in Python makes them: ids, tokens, and a mask of what each counts. */
  function windows(text) {
    const { ids, tokens } = tokenizer.encode(likePython(composed(text)));
    const most = facts.max_length;
    if (ids.length <= most) return [{ ids, tokens, mask: ids.map(() => 1) }];
    const [before, behind] = borders(ids), end = ids.length - behind, length = end - before;
    const size = Math.max(most - before - behind, 1), shared = Math.min(Math.floor(most / 4), Math.floor(size / 2));
    const starts = [0];
    while (starts.at(-1) + size < length) starts.push(Math.min(starts.at(-1) + size - shared, length - size));
    const edge = (i) => (i === 0 ? 0 : i === starts.length ? length : Math.floor((starts[i] + starts[i - 1] + size) / 2));
    return starts.map((start, i) => {
      const stop = Math.min(start + size, length), ones = (count) => new Array(count).fill(1);
      const take = (values) => [...values.slice(0, before), ...values.slice(before + start, before + stop), ...values.slice(end)];
      const mask = Array.from({ length: stop - start }, (_, j) => Number(start + j >= edge(i) && start + j < edge(i + 1)));
      return { ids: take(ids), tokens: take(tokens), mask: [...ones(before), ...mask, ...ones(behind)] };
    });
  }

  // The graph

  /** Rows { ids, mask } -> for each its part of every output, in batches of 1,024 tokens, the longest first. */
  async function run(rows, outputs, id, side = facts.padding_side) {
    const results = new Array(rows.length), order = rows.map((_, i) => i).sort((a, b) => rows[b].ids.length - rows[a].ids.length);
    for (let at = 0; at < order.length; ) {
      if (cancelled.delete(id)) throw new Error("stopped");
      const length = rows[order[at]].ids.length, part = order.slice(at, at + Math.max(1, Math.floor(1024 / length)));
      const shape = [part.length, length];
      const tensor = (filling, values) => {
        const data = new BigInt64Array(part.length * length).fill(BigInt(filling));
        part.forEach((row, i) => {
          const offset = i * length + (side === "left" ? length - rows[row].ids.length : 0);
          values(rows[row]).forEach((value, j) => (data[offset + j] = BigInt(value)));
        });
        return new ort.Tensor("int64", data, shape);
      };
      const feeds = { input_ids: tensor(facts.pad_token_id, (row) => row.ids), attention_mask: tensor(0, (row) => row.ids.map(() => 1)) };
      if (session.inputNames.includes("pooling_mask")) feeds.pooling_mask = tensor(0, (row) => row.mask);
      const found = await session.run(feeds, outputs);
      for (const name of outputs) {
        const { data, dims } = found[name], size = data.length / part.length;
        if (data.some((value) => !Number.isFinite(value))) throw new Error("the model computes NaN or infinity on this device.");
        part.forEach((row, i) => ((results[row] ??= {})[name] = { data: data.slice(i * size, (i + 1) * size), dims: dims.slice(1), left: side === "left" ? length - rows[row].ids.length : 0 }));
      }
      at += part.length;
      self.postMessage({ id, progress: { done: at, total: rows.length } });
      await breathe();
    }
    return results;
  }

  async function predict(id, texts, { onBad = "error", ...options }) {
    const good = texts.map(isReadable), bad = good.indexOf(false);
    if (bad >= 0 && onBad !== "skip") throw new Error(`text ${bad + 1} of ${texts.length} is empty, no string, or holds half of a character.`);
    const answers = await (facts.task === "aspect-extraction" ? terms : emotions)(texts.filter((_, i) => good[i]), options, id);
    return good.map((ok) => (ok ? answers.shift() : null));
  }

  // What the model cannot read

  /** The language as py3langid finds it in Python, from its most telling n-grams of bytes, and its probability. */
  function identified(text) {
    const { codes, prior, grams } = identifier, upper = text === text.toUpperCase() && text !== text.toLowerCase();
    const bytes = Array.from(new TextEncoder().encode(upper ? text.toLowerCase() : text), (byte) => String.fromCharCode(byte)).join("");
    const counts = new Map();
    for (let end = 1; end <= bytes.length; end++) {
      for (let start = Math.max(0, end - identifier.longest); start < end; start++) { // the longest one that ends here
        const gram = bytes.slice(start, end);
        if (grams.has(gram)) { counts.set(gram, (counts.get(gram) ?? 0) + 1); break; }
      }
    }
    const seen = [...counts].map(([gram, count]) => [grams.get(gram), Math.log1p(count) * identifier.step]);
    const shares = softmax(prior.map((start, i) => seen.reduce((sum, [row, weight]) => sum + weight * (row.charCodeAt(i) - 79), start) / Math.sqrt(bytes.length || 1)));
    const of = Object.fromEntries(codes.map((code) => [code, 0]));
    codes.forEach((code, i) => (of[code] += shares[i])); // a language of two scripts stands there twice
    return Object.entries(of).reduce((best, one) => (one[1] > best[1] ? one : best));
  }

  /** As `_foreign` of Python. */
  function languageOf(whole) {
    const text = whole.slice(0, 2000), words = text.toLowerCase().match(/\p{L}+(?:['’]\p{L}+)?/gu) ?? [];
    const others = text.match(/[^\P{L}\u0000-\u024f\u1e00-\u1eff]/gu) ?? [];
    if (!facts.languages.length || (words.length < 4 && others.length < 10)) return null;
    if (facts.languages.includes("en") && words.filter((word) => english.has(word.replace("’", "'"))).length >= 0.1 * words.length) return null;
    const [code, share] = identified(text);
    return facts.languages.includes(code) || code === "zxx" || share <= 0.5 ? null : code;
  }

  /** As `unknown_shares` of Python for tokenizers of BERT: the share of the letters in words that are unknown or in fragments. */
  function unknownShare(text) {
    if (!bert) return 0;
    const lengthOf = (word) => (word.match(/[A-Za-z]|[^\0-\x7f]/gu) ?? []).length, dense = (word) => (word.match(/[\u3040-\u9fff\uac00-\ud7ff\u{20000}-\u{3ffff}]/gu) ?? []).length;
    let total = 0, lost = 0, free = 0;
    for (const word of tokenizer.pre_tokenizer(tokenizer.normalizer(likePython(text)))) {
      const pieces = tokenizer.model([word]), letters = lengthOf(word);
      total += letters;
      if (pieces.includes(tokenizer.model.unk_token) || pieces.length > [...word].length) lost += letters;
      else if (facts.fragments && pieces.length > 1 && letters + 2 * dense(word) <= 3 * pieces.length) [lost, free] = [lost + letters, Math.max(free, letters)];
    }
    return (lost - free) / Math.max(total, 1);
  }

  function unreadOf(text) {
    if (!isReadable(text)) return { truncated: false, unknown: 0, language: null };
    const read = composed(text), whole = facts.task !== "aspect-extraction"; // emotions are read in windows
    return { truncated: !whole && tokenizer.encode(likePython(read)).ids.length > facts.max_length, unknown: unknownShare(read), language: languageOf(read) };
  }

  // Emotions

  async function emotions(texts, { topK, details = false }, id) {
    const rows = [];
    for (const [document, text] of texts.entries()) {
      rows.push(...windows(text).map((window) => ({ ...window, document })));
      if (document % 100 === 99) await breathe();
    }
    const outputs = session.outputNames.filter((name) => details === true || name !== "label_attentions");
    const found = await run(rows, outputs, id);
    const of = texts.map(() => []);
    rows.forEach((row, i) => of[row.document].push(i));
    return texts.map((_, document) => {
      const own = of[document], labels = facts.labels.map((_, i) => i);
      // The weight of each window for each label: a softmax over the windows of its logarithm.
      const lse = (row, label) => {
        const { data } = found[row].label_attention_lse ?? { data: [Math.log(rows[row].mask.reduce((sum, one) => sum + one, 0))] };
        return data[data.length === 1 ? 0 : label];
      };
      const weights = labels.map((label) => softmax(own.map((row) => lse(row, label))));
      const logits = labels.map((label) => own.reduce((sum, row, i) => sum + weights[label][i] * found[row].logits.data[label], 0) / facts.temperature);
      const scores = facts.multi_label ? logits.map((x) => 1 / (1 + Math.exp(-x))) : softmax(logits);
      const answer = present(scores, topK);
      if (!details) return answer;
      const every = Object.fromEntries(labels.map((label) => [facts.labels[label], scores[label]]));
      return { labels: answer, scores: every, ...seen(own.map((row) => ({ ...rows[row], ...found[row] })), weights) };
    });
  }

  function softmax(values) {
    const largest = values.reduce((a, b) => Math.max(a, b)), powers = values.map((value) => Math.exp(value - largest));
    const total = powers.reduce((a, b) => a + b);
    return powers.map((power) => power / total);
  }

  /** The labels of a text, the most probable first, as `Predictor.present` gives them. */
  function present(scores, topK) {
    const sure = Math.max(...scores), sets = facts.prediction_sets;
    if (facts.abstention !== null && !topK && sure < facts.abstention) return [{ label: "abstained", score: sure }];
    const best = scores.indexOf(sure);
    const chosen = (score, i) => (sets !== null && score >= sets) || (facts.multi_label ? sets === null && score > facts.thresholds[i] : i === best);
    const order = scores.map((_, i) => i).sort((a, b) => scores[b] - scores[a]);
    return (topK ? order.slice(0, topK) : order.filter((i) => chosen(scores[i], i))).map((i) => ({ label: facts.labels[i], score: scores[i] }));
  }

  /** The words that the model reads, and for each label the share of its attention that they have; nothing without label attention. */
  function seen(parts, weights) {
    if (!parts[0].label_attentions || parts[0].label_attentions.dims[0] !== facts.labels.length) return {};
    const words = [], attention = facts.labels.map(() => []), [before, behind] = borders(parts[0].ids);
    parts.forEach(({ tokens, mask, label_attentions: { data, dims, left } }, part) => {
      const length = dims[1];
      for (let place = before; place < tokens.length - behind; place++) {
        if (!mask[place]) continue;
        const piece = /^(##)?(.*)$/s.exec(tokens[place]);
        if (piece[1] && words.length) words[words.length - 1] += piece[2];
        else words.push(piece[2]) && attention.forEach((values) => values.push(0));
        attention.forEach((values, label) => (values[values.length - 1] += weights[label][part] * data[label * length + left + place]));
      }
    });
    return { words, attention: Object.fromEntries(facts.labels.map((name, i) => [name, attention[i]])) };
  }

  // Terms: as `term_words`, `word_tokens` and `find_terms` of Python; places are in UTF-16 units, as JavaScript counts.

  function termWords(text) {
    const words = [];
    let last = "", place = 0;
    for (const c of text) {
      const start = place, end = (place += c.length);
      if (/[\s\x1c-\x1f\x85]/.test(c) && c !== "\ufeff") { last = ""; continue; }
      const mark = /[\p{M}\u{1f3fb}-\u{1f3ff}]/u.test(c), kind = c === "\u200d" ? "j" : /[\p{L}\p{N}_]/u.test(c) ? "w" : "c";
      if (last && (mark || kind === "j" || last === "j" || (kind === "w" && last === "w"))) {
        words.at(-1)[1] = end;
        if (!mark) last = kind;
      } else {
        words.push([start, end]);
        last = kind;
      }
    }
    return words;
  }

  const normalized = new Map(); // grapheme -> what the tokenizer makes of it, which takes long

  /** Ids of a text, cut at `max_length`, and where each token stands: each grapheme is normalized by itself, so places stay known. */
  function places(text) {
    const ids = [], offsets = [];
    let begin = 0;
    for (const section of tokenizer.splitter_unnormalized.split(text)) { // a special token by its name is one token
      const special = tokenizer.added_tokens_map.get(section);
      if (special) ids.push(special.id) && offsets.push([begin, begin + section.length]);
      else place(section, begin, ids, offsets);
      begin += section.length;
    }
    const [before] = borders(tokenizer.encode("a").ids), special = tokenizer.encode("").ids, most = facts.max_length - special.length;
    return { ids: [...special.slice(0, before), ...ids.slice(0, most), ...special.slice(before)], offsets: offsets.slice(0, most), before };
  }

  function place(text, begin, ids, offsets) {
    let normal = "", at = 0;
    const from = [], to = [];
    for (const { segment, index } of new Intl.Segmenter("en", { granularity: "grapheme" }).segment(text)) {
      if (!normalized.has(segment)) normalized.set(segment, tokenizer.normalizer ? tokenizer.normalizer(likePython(segment)) : segment);
      const changed = normalized.get(segment);
      normal += changed;
      for (let i = 0; i < changed.length; i++) from.push(begin + index) && to.push(begin + index + segment.length);
    }
    for (const word of tokenizer.pre_tokenizer(normal)) {
      let start = (at = normal.indexOf(word, at));
      for (const piece of tokenizer.model([word])) {
        const length = piece === tokenizer.model.unk_token ? word.length : piece.length - (start > at ? 2 : 0);
        ids.push(tokenizer.token_to_id(piece));
        offsets.push([from[start], to[start + length - 1]]);
        start += length;
      }
      at += word.length;
    }
  }

  const QUOTES = "\"'`´“”„‟‘’‚‛«»‹›″′＂＇〝〞〟", BRACKETS = ["()", "[]", "{}", "（）", "［］", "｛｝", "「」", "『』", "【】", "《》", "〈〉", "〔〕"];
  const PARTNERS = new Map([...[...QUOTES].map((c) => [c, QUOTES]), ...BRACKETS.flatMap(([a, b]) => [[a, b], [b, a]])]);

  /** As `unquoted` of Python: the place of a term without the quotation marks, brackets and blanks at its edges. */
  function unquoted(text, start, end) {
    const isWord = (c) => /[\p{L}\p{N}]/u.test(c ?? ""), isEdge = (c) => PARTNERS.has(c) || /\s/.test(c);
    let from = start, to = end;
    while (from < to && isEdge(text[from])) from++;
    while (from < to && isEdge(text[to - 1])) to--;
    if (from === to) return [end, end];
    const isNeeded = (mark) => {
      for (let i = from; i < to; i++) if (PARTNERS.get(mark)?.includes(text[i]) && !(isWord(text[i - 1]) && isWord(text[i + 1]))) return true;
      return false;
    };
    while (start < from && !isNeeded(text[start])) start++;
    for (; end > to && !isNeeded(text[end - 1]); end--) {
      const isSign = ("'’".includes(text[end - 1]) && isWord(text[end - 2])) || ("\"″′".includes(text[end - 1]) && /\p{Nd}/u.test(text[end - 2]));
      if (isSign && !(start && QUOTES.includes(text[start - 1]))) break;
    }
    return [start, end];
  }

  async function terms(texts, _, id) {
    const rows = [];
    for (const text of texts) {
      const words = termWords(text), { ids, offsets, before } = places(text);
      let at = 0;
      const first = words.map(([start, end]) => {
        while (at < offsets.length && offsets[at][1] <= start) at++;
        return at < offsets.length && offsets[at][0] < end ? before + at : -1;
      });
      rows.push({ text, words, ids, first, mask: ids.map(() => 1) });
      if (rows.length % 100 === 0) await breathe();
    }
    const found = await run(rows, ["logits"], id, "right"), count = facts.tags.length;
    return rows.map(({ text, words, first }, row) => {
      const outside = facts.tags.map((tag) => Number(tag === "O")), { data } = found[row].logits;
      const tagsOf = (token) => (token < 0 ? outside : softmax(Array.from(data.subarray(token * count, (token + 1) * count), (x) => x / facts.temperature)));
      return findTerms(first.map(tagsOf)).map(([begin, end, label, score]) => {
        const [start, stop] = unquoted(text, words[begin][0], words[end - 1][1]);
        return { term: text.slice(start, stop), start, end: stop, label, score };
      }).filter(({ start, end }) => start < end);
    });
  }

  function findTerms(probabilities) {
    const [begins, insides] = ["B", "I"].map((begin) => facts.labels.map((label) => facts.tags.indexOf(`${begin}-${label}`)));
    const outside = facts.tags.indexOf("O"), spans = [];
    let open = false;
    probabilities.forEach((row, word) => {
      const [begin, inside] = [begins, insides].map((columns) => columns.reduce((sum, i) => sum + row[i], 0));
      const free = row[outside] >= Math.max(begin, inside);
      if (!free && open && inside >= begin) spans.at(-1)[1] = word + 1;
      else if (!free) spans.push([word, word + 1]);
      open = !free;
    });
    return spans.map(([first, last]) => {
      const scores = facts.labels.map((_, i) => probabilities.slice(first, last).reduce((sum, row) => sum + row[begins[i]] + row[insides[i]], 0) / (last - first));
      const best = scores.indexOf(Math.max(...scores));
      return [first, last, facts.labels[best], scores[best]];
    });
  }
}
