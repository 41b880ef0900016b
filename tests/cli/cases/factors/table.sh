# Every factor has its line, by layer.
twinrun factors | grep -v '^   ' | sed 's/  */ /g; s/ no: no GPU driver here$/ yes/; s/ no: the kernel refuses .*/ yes/'
