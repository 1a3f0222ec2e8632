// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import "testing"

// TestComparedNames: a file that a process had by a single name may be restored by another name
// that the file had as well, and by no further name.
func TestComparedNames(t *testing.T) {
	const mode = 0o100600
	was := &Image{Opened: []OpenedFile{
		{Path: "/dev/shm/sem.tmp", UID: 1, Mode: mode},
		{Path: "/dev/shm/sem.mp", UID: 1, Mode: mode, Same: 1},
		{Path: "/dev/shm/other", UID: 1, Mode: mode},
	}}
	for _, c := range []struct {
		name string
		was  []int
		now  []OpenedFile
		same bool
	}{
		{"by its name", []int{1}, []OpenedFile{{Path: "/dev/shm/sem.mp", UID: 1, Mode: mode}}, true},
		{"by its first name", []int{1}, []OpenedFile{{Path: "/dev/shm/sem.tmp", UID: 1, Mode: mode}}, true},
		{"by its second name", []int{0}, []OpenedFile{{Path: "/dev/shm/sem.mp", UID: 1, Mode: mode}}, true},
		{"two names, now one", []int{0, 1}, []OpenedFile{{Path: "/dev/shm/sem.mp", UID: 1, Mode: mode}}, true},
		{"by another file's name", []int{1}, []OpenedFile{{Path: "/dev/shm/other", UID: 1, Mode: mode}}, false},
		{"another user's", []int{1}, []OpenedFile{{Path: "/dev/shm/sem.tmp", UID: 0, Mode: mode}}, false},
		{"another user's, too", []int{1}, []OpenedFile{{Path: "/dev/shm/sem.tmp", UID: 0, Mode: mode}, {Path: "/dev/shm/sem.mp", UID: 1, Mode: mode}}, false},
		{"and one more", []int{1}, []OpenedFile{{Path: "/dev/shm/sem.mp", UID: 1, Mode: mode}, {Path: "/dev/shm/other", UID: 1, Mode: mode}}, false},
		{"one less", []int{1, 2}, []OpenedFile{{Path: "/dev/shm/sem.mp", UID: 1, Mode: mode}}, false},
	} {
		is := make([]int, len(c.now))
		for n := range is {
			is[n] = n
		}
		if err := was.compareMapped(c.was, is, c.now); (err == nil) != c.same {
			t.Errorf("compareMapped, %s: error %v", c.name, err)
		}
		if len(c.was) > 1 || len(c.now) > 1 {
			continue
		}
		if err := was.compareAny(c.was[0], was.Opened[c.was[0]], c.now[0]); (err == nil) != c.same {
			t.Errorf("compareAny, %s: error %v", c.name, err)
		}
	}
}
