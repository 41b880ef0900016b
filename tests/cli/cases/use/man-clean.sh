# groff has nothing to complain about, and each page has its sections.
command -v man >/dev/null || { echo "man is not installed"; exit 77; }
for c in "" $(twinrun help | sed -n '1,/^Environment:/s/^  \([a-z]*\) .*/\1/p'); do
    twinrun --man $c >page.1
    LC_ALL=C.UTF-8 MANWIDTH=100 man -l --warnings -Tutf8 page.1 2>warnings </dev/null | sed 's/.\x08//g' >page.txt
    cat warnings
    for section in NAME SYNOPSIS DESCRIPTION ENVIRONMENT ${c:+OPTIONS 'EXIT STATUS' EXAMPLES}; do
        grep -qx "$section" page.txt || echo "$c: no section $section"
    done
done
