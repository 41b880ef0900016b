# Three ways to the same help.
twinrun help >a
twinrun --help >b
twinrun -h >c
cmp a b && cmp a c && cat a
for c in $(sed -n '1,/^Environment:/s/^  \([a-z]*\) .*/\1/p' a); do
    twinrun help "$c" >a
    twinrun "$c" --help >b
    twinrun "$c" -h >c
    cmp a b && cmp a c && head -1 a
done
