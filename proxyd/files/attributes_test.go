// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// listXattrs returns the attributes of a file, of any name.
func listXattrs(t *testing.T, path string) map[string]string {
	t.Helper()
	b := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, b)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range strings.FieldsFunc(string(b[:n]), func(r rune) bool { return r == 0 }) {
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(value[:n])
	}
	return all
}

func setXattr(t *testing.T, path, name string, value []byte) {
	t.Helper()
	if err := unix.Lsetxattr(path, name, value, 0); err != nil {
		t.Fatalf("%s: %s: %v", path, name, err)
	}
}

// folderListOf returns an access control list of a folder that its owner may use.
func folderListOf(uid int) []byte {
	b := aclOf(uid)
	b[6] = 7 // of the owner: besides reading and writing, searching
	return b
}

// attributedFiles makes files with attributes, and returns these by the files' paths.
func attributedFiles(t *testing.T, in func(string) string) (entries []Entry, want map[string]map[string]string) {
	t.Helper()
	list := string(aclOf(testUID + 9))
	want = map[string]map[string]string{
		in("d"):          {defaultList: string(folderListOf(testUID + 9)), "user.folder": "yes"},
		in("d/f"):        {"user.note": "with\x00zero", "user.bad\xffname": "\xff", accessList: list},
		in("d/unread"):   {"user.note": "of a file that its owner may not read"},
		in("d/plain"):    {},
		in("parent"):     {"user.parent": "known only as a folder that leads to files"},
		in("parent/sub"): {"user.note": "x", "user.empty": ""},
	}
	for _, name := range []string{"d/f", "d/unread", "d/plain", "parent/sub"} {
		entries = append(entries, createdEntries(t, in(name), "content")...)
	}
	entries = append([]Entry{{Kind: Folder, Path: in("d")}}, entries...)
	for path, all := range want {
		for name, value := range all {
			setXattr(t, path, name, []byte(value))
		}
	}
	for path, mode := range map[string]os.FileMode{in("d/f"): 0o444, in("d/unread"): 0, in("d/plain"): 0o640} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	want[in("d/f")][accessList] = listXattrs(t, in("d/f"))[accessList] // chmod has changed its mask
	return entries, want
}

// TestAttributesComeBack: the extended attributes and access lists that a user can set are as at the cut, of files that
// were made again and of files that are still there; other attributes are neither recorded nor taken away.
func TestAttributesComeBack(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, in func(string) string, all map[string]map[string]string){
		"removed": func(t *testing.T, in func(string) string, _ map[string]map[string]string) {
			// The file that PutBack makes anew has another inode, for this one is still in use: the second PutBack makes it
			// once more, in a folder that is there.
			if err := os.Link(in("parent/sub"), filepath.Join(ownFolder(t), "in use")); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.RemoveAll(in("d")), os.RemoveAll(in("parent"))); err != nil {
				t.Fatal(err)
			}
		},
		"changed": func(t *testing.T, _ func(string) string, all map[string]map[string]string) {
			for path, attributes := range all {
				for name := range attributes {
					if strings.HasPrefix(name, "user.") {
						setXattr(t, path, name, []byte("changed"))
					}
				}
				setXattr(t, path, accessList, folderListOf(testUID+7))
				setXattr(t, path, "user.new", []byte("made after the cut"))
			}
		},
		"taken away": func(t *testing.T, _ func(string) string, all map[string]map[string]string) {
			for path, attributes := range all {
				for name := range attributes {
					if err := unix.Lremovexattr(path, name); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
		"files made in a folder with an access list": func(t *testing.T, in func(string) string, _ map[string]map[string]string) {
			setXattr(t, filepath.Dir(in("d")), defaultList, folderListOf(testUID+8))
			if err := errors.Join(os.RemoveAll(in("d")), os.RemoveAll(in("parent"))); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownFolder(t)
			in := func(name string) string { return filepath.Join(dir, name) }
			entries, want := attributedFiles(t, in)
			shelf := newShelf()
			before := describeTree(t, dir)
			state := recordNow(t, nil, shelf, Job{}, entries...)
			if len(state.Notes) > 0 {
				t.Errorf("notes of Record: %v", state.Notes)
			}
			kept := maps.Clone(want)
			delete(kept, in("parent")) // a folder that only leads to files is left alone while it is there
			then(t, in, kept)
			for range 2 { // a second time has the same result
				r := putBackNow(t, state, shelf, Job{}, entries...)
				if len(r.Notes) > 0 {
					t.Errorf("notes of PutBack: %v", r.Notes)
				}
				for path, all := range want {
					got := listXattrs(t, path)
					for name, value := range all {
						if now, ok := got[name]; !ok || now != value {
							t.Errorf("%s: attribute %q is %q (there: %v), want %q", path, name, now, ok, value)
						}
						delete(got, name)
					}
					for name, value := range got {
						t.Errorf("%s: attribute %q is %q, and was not there at the cut", path, name, value)
					}
				}
				if d := differentLines(before, describeTree(t, dir)); d != "" {
					t.Errorf("the files differ: %s", d)
				}
			}
		})
	}
}

// TestAttributesOfRoot: attributes that only root can set are neither recorded nor taken away, and a State that has such
// attributes is refused.
func TestAttributesOfRoot(t *testing.T) {
	p := filepath.Join(ownFolder(t), "f")
	entries := createdEntries(t, p, "content")
	capability := []byte("\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00")
	setXattr(t, p, "security.capability", capability)
	setXattr(t, p, "trusted.note", []byte("root's"))
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, entries...)
	if all := state.Files[Name(p)].Xattrs; len(all) > 0 || all == nil {
		t.Errorf("recorded: %q, want none", all)
	}
	setXattr(t, p, "user.new", nil)
	putBackNow(t, state, shelf, Job{}, entries...)
	got := listXattrs(t, p)
	if _, stays := got["user.new"]; stays || got["security.capability"] != string(capability) || got["trusted.note"] != "root's" {
		t.Errorf("after PutBack: %q", got)
	}
	for _, name := range []Name{"security.capability", "trusted.note", "system.other", "user", ""} {
		state.Files[Name(p)].Xattrs = Attributes{name: capability}
		_, err := PutBack(testDeadline(t), testUser, Job{}, state, TouchedFiles{}, shelf)
		if err == nil || !strings.Contains(err.Error(), "not a user's") {
			t.Errorf("PutBack of a State with %q: %v", name, err)
		}
	}
}

// TestAttributesUnknown: a State of an older release says nothing about attributes, and none is changed.
func TestAttributesUnknown(t *testing.T) {
	p := filepath.Join(ownFolder(t), "f")
	entries := createdEntries(t, p, "content")
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, entries...)
	state.Files[Name(p)].Xattrs = nil
	appendTo(t, p, "more")
	setXattr(t, p, "user.note", []byte("stays"))
	putBackNow(t, state, shelf, Job{}, entries...)
	if got := listXattrs(t, p); got["user.note"] != "stays" || readFile(t, p) != "content" {
		t.Errorf("after PutBack: %q, attributes %q", readFile(t, p), got)
	}
}

// TestAttributesOfManyFiles: the attributes of a job's files take a bounded part of its State. Where there are more, the
// State names the files, and their attributes stay as they are.
func TestAttributesOfManyFiles(t *testing.T) {
	dir := ownFolder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	was := maxStateXattrs
	maxStateXattrs = 2000
	t.Cleanup(func() { maxStateXattrs = was })
	var entries []Entry
	for _, name := range []string{"a", "b", "c"} {
		entries = append(entries, createdEntries(t, in(name), "content")...)
		setXattr(t, in(name), "user.note", bytes.Repeat([]byte{'x'}, 900))
	}
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, entries...)
	if got := reasonsOf(state.Notes); !strings.HasPrefix(got, "c: extended attributes not recorded: the job's files have more than") {
		t.Errorf("notes %q", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		setXattr(t, in(name), "user.note", []byte("changed"))
	}
	putBackNow(t, state, shelf, Job{}, entries...)
	for name, want := range map[string]int{"a": 900, "b": 900, "c": len("changed")} {
		if got := listXattrs(t, in(name)); len(got["user.note"]) != want {
			t.Errorf("%s: %d bytes, want %d", name, len(got["user.note"]), want)
		}
	}
}

// TestAttributesOfAFile: no more than maxFileXattrs bytes of a file's attributes are held in memory.
func TestAttributesOfAFile(t *testing.T) {
	list := func(_ string, b []byte) (int, error) {
		return copy(b, strings.Repeat("user.long\x00security.other\x00", 2000)), nil
	}
	reads := 0
	get := func(_, _ string, value []byte) (int, error) {
		reads++
		return len(value), nil
	}
	names, err := xattrNames("f", list)
	if err != nil || len(names) != 2000 {
		t.Fatalf("%d names, %v", len(names), err)
	}
	if _, err := readXattrs("f", names, get); !errors.Is(err, errManyXattrs) || reads > maxFileXattrs/maxXattr+1 {
		t.Errorf("after %d reads: %v, want %v", reads, err, errManyXattrs)
	}
}
