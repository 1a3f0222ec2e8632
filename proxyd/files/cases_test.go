// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPutBackCases: a single change after the cut, and the result of PutBack.
func TestPutBackCases(t *testing.T) {
	for name, c := range map[string]struct {
		job     func(in func(string) string) []Entry // changes of the job before the cut
		then    func(in func(string) string) []Entry // and after the cut
		want    map[string]string
		notes   string
		exclude string
		logs    string
		left    bool   // the job has not run after the cut
		fixed   string // a file that must have the size of the cut
	}{
		"appended": {
			job:  func(in func(string) string) []Entry { return createdEntries(t, in("f"), "12345") },
			then: func(in func(string) string) []Entry { appendTo(t, in("f"), "678"); return nil },
			want: map[string]string{"f": "12345"},
		},
		"appended by another job": {
			job:  func(in func(string) string) []Entry { return createdEntries(t, in("f"), "12345") },
			then: func(in func(string) string) []Entry { appendTo(t, in("f"), "678"); return nil },
			want: map[string]string{"f": "12345678"}, left: true, notes: "f: left alone: others have appended to it since the checkpoint",
		},
		"appended by another job, to a file from before the job": {
			job: func(in func(string) string) []Entry {
				writeFile(t, in("f"), "123")
				appendTo(t, in("f"), "45")
				return []Entry{{Kind: Appended, Path: in("f"), Size: 3}}
			},
			then: func(in func(string) string) []Entry { appendTo(t, in("f"), "678"); return nil },
			want: map[string]string{"f": "12345678"}, left: true, notes: "f: left alone: others have appended to it since the checkpoint",
		},
		"appended by another job, with a hole": {
			job: func(in func(string) string) []Entry {
				e := createdEntries(t, in("f"), "")
				os.Truncate(in("f"), 90)
				return e
			},
			then: func(in func(string) string) []Entry { appendTo(t, in("f"), "678"); return nil },
			want: map[string]string{"f": strings.Repeat("\x00", 90) + "678"}, left: true, notes: "f: left alone: others have appended to it since the checkpoint",
		},
		"appended by another job, and of fixed size": {
			job:  func(in func(string) string) []Entry { return createdEntries(t, in("f"), "12345") },
			then: func(in func(string) string) []Entry { appendTo(t, in("f"), "678"); return nil },
			want: map[string]string{"f": "12345"}, left: true, fixed: "f",
		},
		"changed and appended by another job": {
			job:  func(in func(string) string) []Entry { return createdEntries(t, in("f"), "12345") },
			then: func(in func(string) string) []Entry { os.WriteFile(in("f"), []byte("1x345678"), 0o644); return nil },
			want: map[string]string{"f": "12345"}, left: true,
		},
		"replaced by a longer file of another job, which the job touches": {
			job: func(in func(string) string) []Entry { return createdEntries(t, in("f"), "12345") },
			then: func(in func(string) string) []Entry {
				appendTo(t, in("f"), "678")
				return []Entry{{Kind: Appended, Path: in("f"), Size: 5}}
			},
			want: map[string]string{"f": "12345"}, left: true,
		},
		"shortened": {
			job:  func(in func(string) string) []Entry { return createdEntries(t, in("f"), "12345") },
			then: func(in func(string) string) []Entry { os.Truncate(in("f"), 2); return nil },
			want: map[string]string{"f": "12345"},
		},
		"removed": {
			job:  func(in func(string) string) []Entry { return createdEntries(t, in("d/f"), "12345") },
			then: func(in func(string) string) []Entry { os.RemoveAll(in("d")); return nil },
			want: map[string]string{"d/f": "12345"},
		},
		"made later": {
			then: func(in func(string) string) []Entry { return createdEntries(t, in("f"), "new") },
			want: map[string]string{"f": "<missing>"},
		},
		"was there, appended later": {
			job: func(in func(string) string) []Entry { writeFile(t, in("f"), "old"); return nil },
			then: func(in func(string) string) []Entry {
				appendTo(t, in("f"), "new")
				return []Entry{{Kind: Appended, Path: in("f"), Size: 3}}
			},
			want: map[string]string{"f": "old"},
		},
		"was there, written later": {
			job: func(in func(string) string) []Entry { writeFile(t, in("f"), "old"); return nil },
			then: func(in func(string) string) []Entry {
				writeFile(t, in("f"), "new")
				return []Entry{{Kind: Written, Path: in("f")}}
			},
			want: map[string]string{"f": "new"}, notes: "f: left alone: the job changed it for the first time after the checkpoint, and its earlier contents are not known",
		},
		"was there, moved later": {
			job: func(in func(string) string) []Entry { writeFile(t, in("f"), "old"); return nil },
			then: func(in func(string) string) []Entry {
				os.Rename(in("f"), in("g"))
				return []Entry{{Kind: Renamed, Path: in("g"), Other: in("f")}}
			},
			want: map[string]string{"f": "old", "g": "<missing>"},
		},
		"a folder with what nobody knows, moved later": {
			job: func(in func(string) string) []Entry {
				os.Mkdir(in("d"), 0o755)
				os.Chown(in("d"), testUID, testUID)
				writeFile(t, in("d/f"), "old")
				return nil
			},
			then: func(in func(string) string) []Entry {
				os.Rename(in("d"), in("e"))
				return []Entry{{Kind: Renamed, Path: in("e"), Other: in("d")}}
			},
			want: map[string]string{"d/f": "old", "e/f": "<missing>"},
		},
		"folders with files that no entry names, exchanged later": {
			job: func(in func(string) string) []Entry {
				all := append(makeFolder(t, in("d")), makeFolder(t, in("e"))...)
				writeFile(t, in("d/f"), "d's")
				writeFile(t, in("e/f"), "e's")
				return all
			},
			then: func(in func(string) string) []Entry {
				if err := unix.Renameat2(unix.AT_FDCWD, in("d"), unix.AT_FDCWD, in("e"), unix.RENAME_EXCHANGE); err != nil {
					t.Fatal(err)
				}
				return []Entry{{Kind: Exchanged, Path: in("d"), Other: in("e")}}
			},
			want: map[string]string{"d/f": "d's", "e/f": "e's"},
		},
		"another job's file in its place": {
			job: func(in func(string) string) []Entry { return createdEntries(t, in("f"), "12345") },
			then: func(in func(string) string) []Entry {
				writeFile(t, in("g"), "another job's")
				os.Rename(in("g"), in("f"))
				return nil
			},
			want: map[string]string{"f": "another job's"}, notes: "f: left alone: another file has its place since the checkpoint, and the job did not make that file",
		},
		"replaced by the job": {
			job: func(in func(string) string) []Entry { return createdEntries(t, in("f"), "12345") },
			then: func(in func(string) string) []Entry {
				writeFile(t, in("g"), "newer")
				os.Rename(in("g"), in("f"))
				return []Entry{{Kind: Created, Path: in("g")}, {Kind: Replaced, Path: in("f"), Other: in("g")}}
			},
			want: map[string]string{"f": "12345", "g": "<missing>"},
		},
		"a name renamed to another name of the same file, which changes nothing": {
			job: func(in func(string) string) []Entry {
				e := createdEntries(t, in("f"), "12345")
				os.Mkdir(in("d"), 0o755)
				os.Chown(in("d"), testUID, testUID)
				os.Link(in("f"), in("d/g"))
				os.Rename(in("d/g"), in("f"))
				os.Rename(in("d"), in("e"))
				return append(e, Entry{Kind: Folder, Path: in("d")}, Entry{Kind: Linked, Path: in("d/g"), Other: in("f")},
					Entry{Kind: Replaced, Path: in("f"), Other: in("d/g")}, Entry{Kind: Renamed, Path: in("e"), Other: in("d")})
			},
			then: func(in func(string) string) []Entry {
				os.Remove(in("e/g"))
				return []Entry{{Kind: Removed, Path: in("e/g")}}
			},
			want: map[string]string{"f": "12345", "e/g": "12345"},
		},
		"removed before the cut, then made by another job": {
			job: func(in func(string) string) []Entry {
				return []Entry{{Kind: Created, Path: in("f")}, {Kind: Removed, Path: in("f")}}
			},
			then: func(in func(string) string) []Entry { writeFile(t, in("f"), "another job's"); return nil },
			want: map[string]string{"f": "another job's"},
		},
		"excluded": {
			job:     func(in func(string) string) []Entry { return createdEntries(t, in("d/f"), "12345") },
			then:    func(in func(string) string) []Entry { writeFile(t, in("d/f"), "newer"); return nil },
			want:    map[string]string{"d/f": "newer"},
			exclude: "d",
		},
		"a log": {
			job: func(in func(string) string) []Entry { return createdEntries(t, in("log"), "12345") },
			then: func(in func(string) string) []Entry {
				appendTo(t, in("log"), "678")
				return createdEntries(t, in("log"), "12345678")
			},
			want: map[string]string{"log": "12345678"}, logs: "log",
		},
		"a log by another name": {
			job: func(in func(string) string) []Entry { return createdEntries(t, in("log"), "12345") },
			then: func(in func(string) string) []Entry {
				os.Symlink("log", in("alias"))
				appendTo(t, in("log"), "678")
				return nil
			},
			want: map[string]string{"log": "12345678"}, logs: "alias",
		},
		"mode without rights": {
			job: func(in func(string) string) []Entry {
				e := createdEntries(t, in("f"), "12345")
				os.Chmod(in("f"), 0)
				return e
			},
			then: func(in func(string) string) []Entry { os.WriteFile(in("f"), []byte("other"), 0); return nil },
			want: map[string]string{"f": "12345"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownFolder(t)
			in := func(name string) string { return filepath.Join(dir, name) }
			job := Job{Left: c.left}
			if c.fixed != "" {
				job.Fixed = []string{in(c.fixed)}
			}
			if c.exclude != "" {
				job.Exclude = []string{in(c.exclude)}
			}
			if c.logs != "" {
				job.Logs = []string{in(c.logs)}
			}
			shelf := newShelf()
			var entries []Entry
			if c.job != nil {
				entries = c.job(in)
			}
			state := recordNow(t, nil, shelf, job, entries...)
			if len(state.Notes) > 0 {
				t.Errorf("record: %v", state.Notes)
			}
			after := c.then(in)
			for range 2 { // a second time has the same result
				r := putBackNow(t, state, shelf, job, after...)
				if got := reasonsOf(r.Notes); got != c.notes {
					t.Errorf("notes of PutBack %q, want %q", got, c.notes)
				}
				for name, want := range c.want {
					if got := readFile(t, in(name)); got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
			}
		})
	}
}
