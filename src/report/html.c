/* SPDX-License-Identifier: Apache-2.0 */
#include "html.h"

#include <string.h>

/* Colours have one name per use, so that light and dark differ here only. Nothing is said by colour alone. */
static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1d2430;--soft:#5b6675;--line:#d9dee5;--card:#f5f7f9;--found:#b42318;--clean:#157347;"
    "--open:#8a5a00;--trouble:#6b2fa0;--trunk:#2f6db3}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#12161c;--fg:#e4e8ee;--soft:#9aa6b5;--line:#313945;--card:#1a2029;--found:#ff8f85;"
    "--clean:#6fd3a0;--open:#f0c060;--trouble:#cfa6f5;--trunk:#7fb4ee}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:70rem;padding:1.25rem 1rem 3rem;background:var(--bg);color:var(--fg);"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "h1{font-size:1.6rem;line-height:1.25;margin:.3rem 0 .6rem;overflow-wrap:anywhere}\n"
    "h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}\n"
    "h3{font-size:1rem;margin:0 0 .4rem}\n"
    "p{margin:.4rem 0}\n"
    "code,pre{font:.875rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere;unicode-bidi:isolate}\n"
    "pre{white-space:pre-wrap;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem;margin:.4rem 0}\n"
    ".word{display:inline-block;font-weight:600;border:2px solid;border-radius:6px;padding:.05rem .6rem}\n"
    ".found{color:var(--found)}.clean{color:var(--clean)}.open{color:var(--open)}.trouble{color:var(--trouble)}\n"
    ".soft{color:var(--soft);font-size:.9rem}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;margin:.8rem 0}\n"
    "dl{display:grid;grid-template-columns:8.5rem 1fr;gap:.3rem 1rem;margin:0}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere;unicode-bidi:isolate}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:.9rem}\n"
    "th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line)}\n"
    "th{color:var(--soft);font-weight:500}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    "td.what{overflow-wrap:anywhere;min-width:9rem}\n"
    ".strip{display:grid;grid-template-columns:minmax(4rem,max-content) 1fr minmax(5rem,max-content);gap:0 .8rem;align-items:center;font-size:.9rem}\n"
    ".strip svg,.tree svg{display:block;width:100%;overflow:visible}\n"
    ".tree{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:0 1rem;font-size:.9rem;padding-right:.6rem}\n"
    ".tree div{height:28px;line-height:28px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;max-width:16rem}\n"
    "details{margin:.5rem 0}summary{cursor:pointer}\n"
    "@media (max-width:34rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}h1{font-size:1.3rem}.tree div{max-width:8rem}}\n"
    "@media print{body{max-width:none}}\n";

void tw_html_text(struct tw_buf *b, const char *s)
{
    char *safe = tw_printable(s, strlen(s));
    if (safe)
        tw_say_markup(b, safe);
    else
        b->failed = TWIN_ENOMEM;
    tw_free(safe);
}

void tw_html_element(struct tw_buf *b, const char *tag, const char *class, const char *text)
{
    tw_buf_printf(b, "<%s", tag);
    if (class)
        tw_buf_printf(b, " class=\"%s\"", class);
    tw_buf_puts(b, ">");
    tw_html_text(b, text);
    tw_buf_printf(b, "</%s>", tag);
}

void tw_html_begin(struct tw_buf *b, const char *title)
{
    tw_buf_puts(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   /* should an escape ever be forgotten, a browser still loads and runs nothing */
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>twinrun: ");
    tw_html_text(b, title);
    tw_buf_printf(b, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", style);
}

void tw_html_end(struct tw_buf *b)
{
    tw_buf_puts(b, "</body>\n</html>\n");
}
