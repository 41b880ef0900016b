"""No steps: a few records, a table, printed results."""

import array

import twinrun

total = 0.0
for k in range(12):
    v = array.array("d", [k * 0.5, k * k * 0.25])
    twinrun.record("batch:in", v)
    total += sum(v)
    twinrun.record("sum", array.array("d", [total]))
with open("table.csv", "w") as f:
    f.write("name,value\n" + "".join("row%d,%.3f\n" % (k, k * 1.5) for k in range(5)))
print("total %.3f of 12 records" % total)
