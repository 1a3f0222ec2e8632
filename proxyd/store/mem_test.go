// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// TestWriterMemory writes a long stream and looks at the process's memory in the kernel's figures.
func TestWriterMemory(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the race detector has its own memory; -short: 1 GiB is written")
	}
	const most = 64 << 20
	im := storetest.NewImage(9, 16384).Bytes()
	s := openStore(t, newFolder(t), store.Options{Workers: 2})
	w := mustReturn(s.Create(t.Context(), store.Upload{ID: checkpointID(1, 1), Node: "n1"}))
	st := mustReturn(w.Stream(0, "pages-1.img"))
	debug.FreeOSMemory() // of earlier tests
	before, peak := residentMemory(t), int64(0)
	for i := range 20 { // 1.25 GiB, all different
		for j := 0; j < len(im); j += 4096 {
			im[j] = byte(i + 1)
		}
		mustReturn(st.Write(im))
		peak = max(peak, residentMemory(t)-before)
	}
	failOn(t, st.Close())
	mustReturn(w.Commit(t.Context(), nil))
	t.Logf("peak %d MiB more than before", peak>>20)
	if peak > most {
		t.Errorf("a Writer took %d MiB, want at most %d", peak>>20, most>>20)
	}
}

// residentMemory returns RssAnon: the memory that is this process's own.
func residentMemory(t *testing.T) int64 {
	text := string(mustReturn(os.ReadFile("/proc/self/status")))
	_, rest, _ := strings.Cut(text, "RssAnon:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	failOn(t, err)
	return kib << 10
}
