# The six comparisons of bzip2's `make test`, with the other options, damaged
# input and recovery. Runs in the folder of the build; prints a line per test.
result() {
    if [ "$2" = 0 ]; then echo "PASS: $1"; else echo "FAIL: $1"; fi
}
same() {
    cmp -s "$2" "$3" && result "$1" 0 || result "$1" 1
}
work=$TMPDIR/bzip2-suite
rm -rf "$work" && mkdir -p "$work"

for n in 1 2 3; do
    ./bzip2 -$n <sample$n.ref >"$work/$n.bz2"
    same "compress sample$n" sample$n.bz2 "$work/$n.bz2"
    flag=-d
    [ $n = 3 ] && flag=-ds
    ./bzip2 $flag <sample$n.bz2 >"$work/$n.tst"
    same "decompress sample$n" sample$n.ref "$work/$n.tst"
done

for option in -1 -9 -s --best; do
    cp sample1.ref "$work/file"
    ./bzip2 $option "$work/file" && [ ! -f "$work/file" ] && ./bzip2 -d "$work/file.bz2"
    same "round trip $option" sample1.ref "$work/file"
done
printf '' | ./bzip2 | ./bzip2 -d >"$work/empty"
same "empty input" /dev/null "$work/empty"
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "a" }' >"$work/same.ref"
./bzip2 <"$work/same.ref" | ./bzip2 -dc >"$work/same.out"
same "one letter" "$work/same.ref" "$work/same.out"
cat sample1.bz2 sample2.bz2 | ./bzip2 -dc >"$work/two.out"
cat sample1.ref sample2.ref >"$work/two.ref"
same "two streams" "$work/two.ref" "$work/two.out"
./bzip2 -t sample1.bz2 sample2.bz2 && result "integrity" 0 || result "integrity" 1
head -c 20000 sample1.bz2 >"$work/short.bz2"
./bzip2 -t "$work/short.bz2" 2>/dev/null && result "truncated input" 1 || result "truncated input" 0
echo text | ./bzip2 -dc >/dev/null 2>&1 && result "not compressed" 1 || result "not compressed" 0
cp sample2.bz2 "$work/rec.bz2"
here=$PWD
(cd "$work" && "$here/bzip2recover" rec.bz2 >/dev/null 2>&1)
for piece in "$work"/rec0*rec.bz2; do ./bzip2 -dc "$piece"; done >"$work/rec.out"
same "recovery" sample2.ref "$work/rec.out"
