# Archives may come from anybody.
TWINRUN_HOME=home RANK=0 WORLD_SIZE=1 twinrun record -q -- "$JOB" --steps 3 >out
mv home/runs/* run
cat >make.py <<'PY'
import io, os, tarfile

def entry(name, type_=tarfile.REGTYPE, data=b"x", link=""):
    one = tarfile.TarInfo(name)
    one.type, one.linkname = type_, link
    one.size = len(data) if type_ == tarfile.REGTYPE else 0
    return one, io.BytesIO(data)

def archive(name, *entries, format=tarfile.PAX_FORMAT, run=True):
    with tarfile.open(name, "w", format=format) as tar:
        if run:
            tar.add("run")
        for one, data in entries:
            tar.addfile(one, data if one.isreg() else None)

archive("up", entry("run/../../up.txt"))
archive("absolute", entry("/absolute.txt"))
archive("deep", entry("d/" * 70 + "file"))
archive("long", entry("n" * 300))
archive("link", entry("run/out", tarfile.SYMTYPE, link="/"))
archive("through", entry("out", tarfile.SYMTYPE, link="/tmp"), entry("out/file"), run=False)
archive("hard", entry("run/hard", tarfile.LNKTYPE, link="run/run.json"))
archive("device", entry("run/device", tarfile.CHRTYPE))
archive("pipe", entry("run/pipe", tarfile.FIFOTYPE))
archive("twice", entry("run/run.json"))
archive("below", entry("run/run.json/below"))
archive("empty", run=False)
sparse = entry("run/sparse")
sparse[0].pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": "99999999999999"}
archive("sparse", sparse)
archive("gnu", entry("run/" + "n" * 120), entry("run/next"), format=tarfile.GNU_FORMAT)
archive("ustar", entry("run/" + "d" * 90 + "/" + "n" * 90), format=tarfile.USTAR_FORMAT)
archive("good")
good = open("good", "rb").read()
# two entries of a header and a block each, and a piece of the third
archive("cut", entry("run/a"), entry("run/b"), entry("run/c"), run=False)
open("cut", "r+b").truncate(2 * 1024 + 100)
open("sum", "wb").write(good[:5] + b"!" + good[6:])
end = good.rstrip(b"\0")
end += bytes(-len(end) % 512)
open("behind", "wb").write(end + bytes(512) + good)
with tarfile.open("bomb", "w") as tar:
    huge = tarfile.TarInfo("run/huge")
    huge.size = 1 << 60
    tar.fileobj.write(huge.tobuf(tarfile.GNU_FORMAT))
archive("inside", entry("run/trace", data=good))
PY
"$PYTHON" make.py
mkdir parts
for name in up absolute deep long link through hard device pipe twice below empty sparse cut sum behind bomb; do
    twinrun gather "$name" --into parts/x && echo "$name was taken"
done
gzip -c good | twinrun gather - --into parts/x && echo "taken"
ls -A parts /tmp/up.txt /absolute.txt 2>&1 | sed 's/.*: \(.*\)/\1/'
for name in gnu ustar good inside; do
    twinrun gather "$name" --into "parts/$name" | sed -n 2p
done
diff -r run parts/good | grep -v '^diff\|^Only\|^[<>]\|^---\|^[0-9]'
find parts -name 'n*n' | sed 's/n\{80,\}/NAME/; s/d\{80,\}/FOLDER/' | sort
