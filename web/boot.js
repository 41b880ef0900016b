// SPDX-License-Identifier: Apache-2.0
// Unpacks what the page carries: first the application, which then asks for the blocks of data. Nothing is asked of a network.
globalThis.twinrunUnpack = async (/** @type {HTMLElement | null} */ block) => {
  const bytes = Uint8Array.from(atob(block?.textContent || ''), c => c.charCodeAt(0));
  if (block && 'raw' in block.dataset) return bytes.buffer;
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).arrayBuffer();
};
globalThis.twinrunUnpack(document.getElementById('app')).then((/** @type {ArrayBuffer} */ app) => {
  const script = document.createElement('script');
  script.textContent = new TextDecoder().decode(app);
  document.body.append(script);
});
