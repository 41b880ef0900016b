# A program that cannot carry the agent: said, nothing is claimed.
printf 'int main(void) { return 4; }\n' >static.c
cc -static -o static static.c 2>/dev/null || { echo "no static C library"; exit 77; }
twinrun run -q --pin entropy -- ./static 2>said
code=$?
grep -c 'NOT pinned: entropy (not in force: process [0-9]* (./static) does not carry the agent' said
exit $code
