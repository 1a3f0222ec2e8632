//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
)

// measureSizes returns Table 4: the size of a training's first checkpoint, and of the data that the second checkpoint
// adds, which is made some mini-batches later.
func measureSizes(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| workload | workers | user's checkpoint | S_G: memory, one copy | as the nodes write it | kernels and handles | S_Cr of all workers | of each | one copy | memory added by the second | S_Cr added |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	c, workloads := trainingCluster(t, 2)
	for _, w := range workloads {
		for _, workers := range w.workers {
			nodes := (workers + 3) / 4
			each := workers / nodes
			t.Logf("%s, %d workers on %d nodes", w.name, workers, nodes)
			j := c.startTraining(t, w, fmt.Sprintf("--nodes=%d --ntasks-per-node=%d --gpus-per-node=%d --singularity", nodes, each, each), "srun")
			first, _ := c.captureJob(t, j.id)
			j.waitForSteps(t)
			second, _ := c.captureJob(t, j.id)
			one, two := c.readContents(t, first), c.readContents(t, second)
			fmt.Fprintf(&b, "| %s | %d |", w.name, workers)
			for _, bytes := range []int{
				12 * w.parameters, one.memory.bytesOnce(), one.memory.bytes, one.control.bytesOnce(), one.host.bytes, one.host.bytes / workers, one.host.bytesOnce(),
				two.memory.bytesWithout(&one.memory), two.host.bytesWithout(&one.host),
			} {
				fmt.Fprintf(&b, " %s |", formatMegabytes(bytes))
			}
			b.WriteString("\n")
			j.stop(t)
		}
	}
	return b.String()
}

func formatMegabytes(n int) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }

// content is a part of a checkpoint: its bytes but zero pages, and its chunks with their lengths.
type content struct {
	bytes  int
	chunks map[store.Hash]int
}

// bytesOnce returns how many bytes the part has if equal chunks count once.
func (p *content) bytesOnce() (n int) {
	for _, bytes := range p.chunks {
		n += bytes
	}
	return n
}

// bytesWithout returns how many bytes of the part are in chunks that q does not have.
func (p *content) bytesWithout(q *content) (n int) {
	for h, bytes := range p.chunks {
		if _, ok := q.chunks[h]; !ok {
			n += bytes
		}
	}
	return n
}

// contents are the parts of a checkpoint: memory of devices; other state of devices, such as kernels and handles; and
// the rest, which belongs to programs and files.
type contents struct{ memory, control, host content }

// readContents reads which chunks a checkpoint has.
func (c *cluster) readContents(t *testing.T, k checkpoint) *contents {
	t.Helper()
	key, err := store.NewKey([]byte(c.runMinicluster(t, "exec", "n1", "--", "cat", "/etc/singularity-slurm/key")))
	if err != nil {
		t.Fatal(err)
	}
	be, err := posix.Open(filepath.Join(filepath.Dir(c.sharedPath()), "singularity/store"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), be, key, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, err := store.ParseID(k.ID)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := &contents{}
	for _, part := range []*content{&all.memory, &all.control, &all.host} {
		part.chunks = map[store.Hash]int{}
	}
	for _, stream := range r.Manifest().Streams {
		_, name, _ := strings.Cut(stream.Name, "/") // as docs/formats.md says
		part := &all.host
		if strings.HasPrefix(name, records.DevicesFolder+"/"+server.BlocksPrefix) {
			part = &all.memory
		} else if strings.HasPrefix(name, records.DevicesFolder+"/") {
			part = &all.control
		}
		part.bytes += int(stream.Data)
		if err := r.EachChunk(stream.StreamID, func(h store.Hash, bytes int) { part.chunks[h] = bytes }); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
