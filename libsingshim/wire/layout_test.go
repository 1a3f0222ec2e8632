// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// ours is this package's value of each constant of the header.
var ours = map[string]uint64{
	"RING_MAGIC": ringMagic, "RING_VERSION": ringVersion, "UNIT": unitSize, "LANES": lanes,
	"LANE_UNITS": laneUnits, "LANES_AT": lanesAt, "FIRST_UNIT": firstUnit, "RECORD_UNITS": recordUnits,
	"SIZE_MAX": sizeMax, "COUNTS_MAX": countsMax, "RING_SIZE": ringSize,
	"LAST": lastMask, "ASLEEP": asleep, "CALLS_SHUT": callsShut, "COUNTED_SHUT": countedShut,
	"CLOSED": closedBit, "GRANT": grantOne, "GRANTS": grantsMask, "LEFT": leftBit,
	"POSITION": positionMask, "WAITS": waitsBit, "CALL": flagCall,
	"AWAITED": stateAwaited, "AWAITED_ASLEEP": stateAwaitedAsleep,
	"ANSWERED": stateAnswered, "UNANSWERED": stateUnanswered,
	"ASKS_AGAIN": asksAgain, "AGAIN": 1<<64 - 2,
}

// structs are the structs of wire.h, by its names.
var structs = map[string]reflect.Type{
	"sing_ring": reflect.TypeFor[ringHead](), "sing_lane": reflect.TypeFor[laneHead](),
	"sing_record": reflect.TypeFor[recordHead](), "sing_answer": reflect.TypeFor[answerHead](),
	"sing_count": reflect.TypeFor[count](),
}

// TestLayout: every constant and every member of wire.h is in this package with the same value, at the same offset and
// of the same size, and this package has no others.
func TestLayout(t *testing.T) {
	header, err := os.ReadFile("wire.h")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(header), "")
	want := map[string]uint64{}
	var program strings.Builder
	fmt.Fprintln(&program, "#include <stdio.h>\n#include \"wire.h\"\nint main(void)\n{")
	ask := func(name, expression string) {
		fmt.Fprintf(&program, "\tprintf(\"%s %%llu\\n\", (unsigned long long)(%s));\n", name, expression)
	}

	names := regexp.MustCompile(`(?m)^#define SING_(\w+) \S|^\tSING_(\w+) = `).FindAllStringSubmatch(text, -1)
	if len(names) != len(ours) {
		t.Errorf("%d constants in wire.h, %d here", len(names), len(ours))
	}
	for _, m := range names {
		ask(m[1]+m[2], "SING_"+m[1]+m[2])
	}
	maps.Copy(want, ours)

	bodies := regexp.MustCompile(`(?s)struct (\w+) \{(.*?)\n\}`).FindAllStringSubmatch(text, -1)
	if len(bodies) != len(structs) {
		t.Errorf("%d structures in wire.h, %d here", len(bodies), len(structs))
	}
	member := regexp.MustCompile(`\b(\w+)(\[\w+\])?[,;]`)
	for _, b := range bodies {
		name, typ := b[1], structs[b[1]]
		if typ == nil {
			t.Fatalf("struct %s of wire.h is not in this package", name)
		}
		ask(name, "sizeof(struct "+name+")")
		want[name] = uint64(typ.Size())
		for _, m := range member.FindAllStringSubmatch(b[2], -1) {
			if strings.HasPrefix(m[1], "reserved") {
				continue
			}
			field := fmt.Sprintf("%s.%s", name, m[1])
			ask(field, fmt.Sprintf("offsetof(struct %s, %s) * 1000 + sizeof(((struct %s *)0)->%s)", name, m[1], name, m[1]))
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "_" {
				continue
			}
			key := name + "." + snakeCase(f.Name)
			want[key] = uint64(f.Offset)*1000 + uint64(f.Type.Size())
		}
	}
	// Two halves of a single word here, so that the word is read once.
	delete(want, "sing_record.flags_counts")
	want["sing_record.flags"], want["sing_record.counts"] = 12*1000+2, 14*1000+2
	fmt.Fprintln(&program, "\treturn 0;\n}")

	got := map[string]uint64{}
	for line := range strings.Lines(runC(t, program.String())) {
		var name string
		var n uint64
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			t.Fatal(err)
		}
		got[name] = n
	}
	for name, n := range want {
		if g, ok := got[name]; !ok || g != n {
			t.Errorf("%s is %d in wire.h (found: %v), %d in this package", name, g, ok, n)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s of wire.h is not in this package", name)
	}
}

func snakeCase(s string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(s, "${1}_${2}"))
}

// runC compiles and runs a program that includes wire.h, and returns the output.
func runC(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "layout.c")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "layout")
	if out, err := exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
