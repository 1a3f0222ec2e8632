// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func touchedSince(t *testing.T, j *ChangeList, m Mark) TouchedFiles {
	t.Helper()
	got, err := j.Since(m)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestShimWrites: changes that programs make through libc are in the change list, with their kind and the absolute path.
func TestShimWrites(t *testing.T) {
	dir := ownFolder(t)
	if err := os.WriteFile(filepath.Join(dir, "old"), []byte("12345"), 0o666); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, "old"), 0o666)
	j, env := changeListFor(t)
	runAsUser(t, env, "/bin/bash", "-c", "cd "+dir+`
		echo one >new; echo two >>new; echo three >>old
		mkdir d; mv new d/moved; ln d/moved hard; ln -s nowhere soft; rm hard
		cd d; : >../up; cat ../old >/dev/null; echo x >/tmp/unseen-$$; rm /tmp/unseen-$$`)
	want := strings.ReplaceAll(`
c D/new
a D/old
m D/d
r D/d/moved from D/new
l D/hard from D/d/moved
s D/soft
d D/hard
c D/d/../up`, "D", dir)
	got := touchedSince(t, j, 0)
	if s := describeEntries(got.Entries); s != want || got.Lost {
		t.Errorf("got%s\nwant%s", s, want)
	}
	if n := got.Entries[1].Size; n != 5 {
		t.Errorf("old was %d bytes long before", n)
	}
}

// TestChangeListGoesOn: a second ChangeList on the same list takes up where the first stopped,
// also when it died in the middle of a write; a new list goes on in the old log.
func TestChangeListGoesOn(t *testing.T) {
	dir := ownFolder(t)
	j, env := changeListFor(t)
	base := filepath.Dir(j.log.Name())
	write := func(name string) { runAsUser(t, env, "/bin/sh", "-c", ": >"+filepath.Join(dir, name)) }
	write("one")
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	j.log.WriteAt([]byte{recordMark, stateDone, 'c', 0, 200, 0}, j.end) // killed here
	write("two")
	again, err := OpenChangeList(filepath.Join(base, "files"), j.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	want := fmt.Sprintf("\nc %[1]s/one\nc %[1]s/two", dir)
	if s := describeEntries(touchedSince(t, again, 0).Entries); s != want {
		t.Errorf("got%s\nwant%s", s, want)
	}
	if err := CreateChangeList(filepath.Join(base, "files"), testUID, testUID); err != nil {
		t.Fatal(err)
	}
	third, err := OpenChangeList(filepath.Join(base, "files"), j.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	mark, err := third.Cut()
	if err != nil {
		t.Fatal(err)
	}
	write("three")
	if s, want := describeEntries(touchedSince(t, third, mark).Entries), "\nc "+dir+"/three"; s != want {
		t.Errorf("got%s\nwant%s", s, want)
	}
	if s, want := describeEntries(touchedSince(t, third, 0).Entries), want+"\nc "+dir+"/three"; s != want {
		t.Errorf("got%s\nwant%s", s, want)
	}
	if err := third.Rewind(mark, nil); err != nil {
		t.Fatal(err)
	}
	if s := describeEntries(touchedSince(t, third, 0).Entries); s != want {
		t.Errorf("after Rewind%s\nwant%s", s, want)
	}
}

// TestCutForgets: a path that a process has recorded before a cut is recorded again after the cut.
func TestCutForgets(t *testing.T) {
	dir := ownFolder(t)
	j, env := changeListFor(t)
	in, out := startAs(t, env, "/bin/bash", "-c", "cd "+dir+"; while read x; do echo $x >>f; echo done; done")
	step := func() {
		t.Helper()
		fmt.Fprintln(in, "x")
		if line, err := out.ReadString('\n'); err != nil || line != "done\n" {
			t.Fatalf("the program says %q, %v, want done", line, err)
		}
	}
	step()
	step()
	if s, want := describeEntries(touchedSince(t, j, 0).Entries), "\nc "+dir+"/f"; s != want {
		t.Errorf("got%s\nwant%s", s, want)
	}
	mark, err := j.Cut()
	if err != nil {
		t.Fatal(err)
	}
	step()
	step()
	got := touchedSince(t, j, mark)
	if s, want := describeEntries(got.Entries), "\na "+dir+"/f"; s != want || got.Entries[0].Size != 4 {
		t.Errorf("got%s\nwant%s", s, want)
	}
}

// TestAdd: entries of other observers are taken unless the shim has recorded the same change, or a larger one.
func TestAdd(t *testing.T) {
	dir := ownFolder(t)
	j, env := changeListFor(t)
	writeFile(t, filepath.Join(dir, "old"), "old")
	runAsUser(t, env, "/bin/sh", "-c", "cd "+dir+"; : >new; : >>old")
	err := j.Add(Entry{Kind: Written, Path: dir + "/new"}, Entry{Kind: Closed, Path: dir + "/old"}, Entry{Kind: Appended, Path: dir + "/old"},
		Entry{Kind: Closed, Path: dir + "/static", ID: 7}, Entry{Kind: Closed, Path: dir + "/static", ID: 7}, Entry{Kind: Created, Path: "relative"},
		Entry{Kind: Written, Path: dir + "/old"}) // open otherwise, too
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("\nc %[1]s/new\na %[1]s/old\nf %[1]s/old\nf %[1]s/static", dir)
	if s := describeEntries(touchedSince(t, j, 0).Entries); s != want {
		t.Errorf("got%s\nwant%s", s, want)
	}
}

// TestListFull: when the list is full, no entry is lost: a second file takes the rest.
func TestListFull(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 30,000 files")
	}
	dir := ownFolder(t)
	j, env := changeListFor(t)
	script := fmt.Sprintf("import os\nos.chdir(%q)\nname='x'*200\nfor i in range(30000):\n f=name+str(i)\n os.close(os.open(f,os.O_CREAT|os.O_WRONLY))\n os.unlink(f)\n", dir)
	runAsUser(t, env, "/usr/bin/python3", "-c", script)
	got := touchedSince(t, j, 0)
	created := map[string]bool{}
	for _, e := range got.Entries {
		if e.Kind == Created || e.Kind == Unsure {
			created[e.Path] = true
		}
	}
	if len(created) != 30000 || got.Lost {
		t.Errorf("%d paths, lost %v", len(created), got.Lost)
	}
	if st, err := os.Stat(j.more.Name()); err != nil || st.Size() == 0 {
		t.Errorf("the list was never full: %v, %v", st.Size(), err)
	}
}

// hostileLists are lists that a user could have written.
func hostileLists() map[string][]byte {
	head := func(tail uint64) []byte {
		b := listHead{tail: tail, first: firstAt, epoch: 1, run: "0123456789abcdef"}.encodeHead()
		return append(b, make([]byte, listSize-tableAt)...)
	}
	full := head(listSize)
	for i := firstAt; i < listSize; i++ {
		full[i] = recordMark
	}
	endless := head(^uint64(0))
	copy(endless[firstAt:], appendRecord(nil, Entry{Kind: Created, Path: "/x"}))
	anchor := head(firstAt + 200)
	copy(anchor[firstAt:], appendRecord(nil, Entry{Kind: anchorList, Path: "0123456789abcdef", Size: 1 << 60}))
	paths := head(listSize)
	b := paths[firstAt:firstAt]
	for _, p := range []string{"relative", "/", "", "/a\x00b", "/" + strings.Repeat("a", 5000), "/ok", "/../../etc/shadow", "//", "/proc/1/mem"} {
		b = append(b, appendRecord(nil, Entry{Kind: Created, Path: p})...)
	}
	short := head(firstAt + 24)
	copy(short[firstAt:], []byte{recordMark, stateDone, 'c', 0, 255, 15, 255, 15})
	return map[string][]byte{"all marks": full, "endless tail": endless, "forged anchor": anchor, "bad paths": paths, "too long": short, "tail before start": head(3)}
}

// TestHostileList: a list with any bytes that the user may write does not break the change list.
func TestHostileList(t *testing.T) {
	for name, b := range hostileLists() {
		t.Run(name, func(t *testing.T) {
			ownFolder(t)
			j, _ := changeListFor(t)
			if _, err := j.list.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				for _, e := range touchedSince(t, j, 0).Entries {
					if !e.isValid() {
						t.Errorf("the change list returns the invalid entry %+v", e)
					}
				}
			}
			if _, err := j.Cut(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("no list", func(t *testing.T) {
		ownFolder(t)
		j, _ := changeListFor(t)
		j.list.WriteAt([]byte("nonsense"), 0)
		if err := j.Sync(); err == nil || !strings.Contains(err.Error(), "no list of files") {
			t.Errorf("Sync of a list without its mark: %v", err)
		}
	})
	t.Run("truncated", func(t *testing.T) {
		ownFolder(t)
		j, _ := changeListFor(t)
		j.list.Truncate(70)
		if err := j.Sync(); err == nil {
			t.Error("no error")
		}
	})
}

// FuzzParse: a record is parsed within its bytes, and a valid entry stays the same when it is encoded and parsed again.
func FuzzParse(f *testing.F) {
	f.Add(appendRecord(nil, Entry{Kind: Created, Path: "/a"}))
	f.Add(appendRecord(nil, Entry{Kind: Renamed, Path: "/a", Other: "/b"}))
	f.Add(appendRecord(nil, Entry{Kind: Closed, Path: "/a", ID: 1 << 63}))
	f.Add(bytes.Repeat([]byte{recordMark}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		for steps := 0; len(b) > 0; steps++ {
			p := parseRecord(b)
			if p.size == 0 {
				return
			}
			if p.size < 8 || p.size%8 != 0 || p.size > len(b) {
				t.Fatalf("size %d of %d", p.size, len(b))
			}
			if p.state == stateDone && p.entry.isValid() {
				again := parseRecord(appendRecord(nil, p.entry))
				if !reflect.DeepEqual(again.entry, p.entry) {
					t.Fatalf("%+v came back as %+v", p.entry, again.entry)
				}
			}
			b = b[p.size:]
		}
	})
}

// TestEpochPlace: the epoch is where the shim looks for it.
func TestEpochPlace(t *testing.T) {
	ownFolder(t)
	j, _ := changeListFor(t)
	before, _ := j.readHead()
	if _, err := j.Cut(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	j.list.ReadAt(b, epochAt)
	if got := binary.LittleEndian.Uint64(b); got != before.epoch+1 {
		t.Errorf("epoch %d after a Cut, it was %d before", got, before.epoch)
	}
}
