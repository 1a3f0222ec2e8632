// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// TestGuessedWatches: guessedWatches returns the watches for which criu's log says that criu searched for their files.
func TestGuessedWatches(t *testing.T) {
	var l logbook
	fmt.Fprint(&l, `(00.06) Dumping task (pid: 301 comm: python3)
(00.064551) fsnotify: 	[fhandle] bytes 0x000024 type 0x0000f8 __handle 0x10421fb00000000:0xed4e69059ab07c17
(00.064613) Warn  (criu/fsnotify.c:281): fsnotify: 	Handle 0x4e:0x13 cannot be opened
(00.064615) irmap: Resolving 4e:13 path
(00.064633) fsnotify: 	Dumping /etc as path for handle
(00.07) fsnotify: 	Handle 0x801:0x13 is openable
`)
	if got, want := l.guessedWatches(), []guessedWatch{{0x4e, 301}}; !slices.Equal(got, want) {
		t.Errorf("guessedWatches = %+v, want %+v", got, want)
	}
	if all := l.allComplaints(); len(all) != 0 {
		t.Errorf("a warning is no complaint: %+v", all)
	}
}

// TestParseOverlays: the devices of overlay file systems, as the kernel numbers devices in fdinfo.
func TestParseOverlays(t *testing.T) {
	got := parseOverlays(`36 35 0:78 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c
37 36 8:1 / /home rw - ext4 /dev/sda1 rw
38 36 0:219 /x /mnt\040a rw - overlay o rw
39 36 0:80 / /tmp rw - tmpfs overlay rw
`)
	if want := map[uint32]bool{0x4e: true, 0xdb: true}; !maps.Equal(got, want) {
		t.Errorf("parseOverlays = %v, want %v", got, want)
	}
}
