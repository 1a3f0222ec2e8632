//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"os"
	"testing"
)

// TestRegrouped: a job that begins on two GPUs and can use four has two trainings, on the first and the third of the GPUs that its
// programs see, and on the second and the fourth. When the job begins, neighbours share a GPU: a rank of each training.
// From its first checkpoint on, the ranks of one training share a GPU, and the training has the results of the
// undisturbed training.
func TestRegrouped(t *testing.T) {
	t.Parallel()
	const extra = "600000"
	s := raiseSite(t, *name+"-pairs", 1, 2, 2, "--extra", extra)
	s.configurePolicies("")
	s.runCommand("cp", "testdata/pairs.sh", s.cluster.Shared("home/alice"))
	for _, ending := range []string{".losses", ".log", ".stop"} {
		if err := os.RemoveAll(s.cluster.Shared("home/alice", "pairs"+ending)); err != nil {
			t.Fatal(err)
		}
	}
	j := &job{s, s.runOn("ctl", "alice", "sbatch --parsable --time=10 --job-name=pairs --qos=basic --gpus-per-node=2 --singularity-gpus=2-4 --export=ALL,EXTRA="+extra+" pairs.sh"), "pairs"}
	for range 2 {
		j.waitForProgress()
		s.runOn("ctl", "operator", "singctl checkpoint "+j.id)
		for i, gpu := range j.shownCapsules(1)[0].Devices.Sharing {
			if gpu.Spaces != 2 || gpu.Alike == 0 {
				t.Errorf("GPU %d has the memory of %d ranks, of which %d bytes are alike", i, gpu.Spaces, gpu.Alike)
			}
		}
	}
	j.waitForProgress()
	if st := j.endAndCompare(); st.restarts != 0 {
		t.Errorf("the job was restarted %d times", st.restarts)
	}
}
