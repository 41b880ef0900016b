// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from 'node:fs';
import { defineConfig } from 'vite';

// The pictures of the HTML reports, as they are, so that a cell looks and reads the same in both:
// classic scripts that share one scope (docs/internals/report.md), made one module here.
const PICTURES = ['vendor/uplot/uPlot.iife.min.js', 'page.js', 'overlay.js', 'heatmap.js', 'plot.js'];

const pictures = {
  name: 'twinrun-pictures',
  resolveId: id => (id === 'virtual:pictures' ? '\0virtual:pictures' : null),
  load(id) {
    if (id !== '\0virtual:pictures') return null;
    const texts = PICTURES.map(name => {
      const file = new URL(`../${name}`, import.meta.url);
      this.addWatchFile(file.pathname);
      return readFileSync(file, 'utf8');
    });
    return texts.join('\n') + '\nexport { Heatmap, Plot };\n';
  },
};

// Names without a digest and one file of each kind: the same sources give the same bytes, and the
// C side knows every file by its name.
export default defineConfig({
  base: '/',
  plugins: [pictures],
  build: {
    target: 'es2022',
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: 'assets/live.js',
        assetFileNames: 'assets/live[extname]',
        inlineDynamicImports: true,
      },
    },
  },
  // while you work on the page: npm run dev, beside a twinrun serve on its usual port
  server: { proxy: { '/api': 'http://127.0.0.1:8471', '/metrics': 'http://127.0.0.1:8471' } },
});
