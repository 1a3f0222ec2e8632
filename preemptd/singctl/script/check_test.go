// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const head = "#!/bin/bash\n#SBATCH --singularity\n"
	for _, c := range []struct {
		name, script string
		want         []string // line, level, what
	}{
		{"nothing", head + "srun ./train --lr 1 # sudo\n", nil},
		{"no option", "#!/bin/bash\nsrun a\n", []string{"0 unprotected the script has no line #SBATCH --singularity"}},
		{"an option behind a command", "#!/bin/bash\nsrun a\n#SBATCH --singularity\n", []string{"0 unprotected the script has no line #SBATCH --singularity"}},
		{"with a value", "#!/bin/bash\n#SBATCH -N2 --singularity=interval=10m # all\nsrun a", nil},
		{"switched off", "#!/bin/bash\n#SBATCH --singularity=off", []string{
			"0 unprotected the script has no line #SBATCH --singularity", "2 unprotected #SBATCH --singularity=off",
		}},
		{"an option that implies it", "#!/bin/bash\n#SBATCH --singularity-gpus=1-4\nsrun a", nil},
		{"a lease", "#!/bin/bash\n#SBATCH --singularity-lease=7\n", []string{"0 unprotected the script has no line #SBATCH --singularity"}},
		{"an emptied log, which append overrides", head + "#SBATCH --open-mode=truncate\n", nil},
		{"a container of its own", head + "apptainer exec a.sif ./a\nsrun bwrap --bind / / ./a", []string{
			"3 not captured apptainer exec a.sif ./a", "4 not captured srun bwrap --bind / / ./a",
		}},
		{"a step of one's own container", head + "srun -n 2 --mem=1G /usr/bin/podman run x\nmpirun -np 4 --map-by core apptainer exec a ./a\nsrun --exclusive gdb ./a\n" +
			"srun -n2 cat podman\nsrun ./a unshare\nsrun -N 1 ./a --with perf\nsrun", []string{
			"3 not captured srun -n 2 --mem=1G /usr/bin/podman run x", "4 not captured mpirun -np 4 --map-by core apptainer exec a ./a",
			"5 not captured srun --exclusive gdb ./a",
		}},
		{"no requeue", head + "\n#SBATCH -p a --no-requeue\n", []string{"4 unprotected #SBATCH --no-requeue"}},
		{"a comment like an option", head + "##SBATCH --no-requeue\n#SBATCHES --no-requeue\n# --no-requeue", nil},
		{"output on the node", head + "#SBATCH --output=/tmp/%j.log -e/dev/shm/err -i /var/tmp/in", []string{
			"3 not captured #SBATCH --output=/tmp/%j.log", "3 not captured #SBATCH -e=/dev/shm/err", "3 not captured #SBATCH -i=/var/tmp/in",
		}},
		{"output elsewhere", head + "#SBATCH --output=/home/tmp/%j.log --error=tmp/x -p /tmp/x", nil},
		{"heterogeneous", head + "#SBATCH hetjob\n#SBATCH --ntasks=1\n", []string{"3 unprotected #SBATCH hetjob"}},
		{"pty", head + "if srun --pty bash; then :; fi", nil},
		{"continued", head + "\nsrun -n1 \\\n  gdb a\nsudo id", []string{"4 not captured srun -n1 gdb a", "6 not captured sudo id"}},
		{"MPI", head + "srun --mpi=pmi2 -n2 a\nsrun --mpi=pmix_v5 -n2 a", nil},
		{"components", head + "srun a : b", []string{"3 changed srun a : b"}},
		{"behind others", head + "cd x && A=1 exec /usr/bin/strace -f ./a | tee log", []string{"3 not captured /usr/bin/strace -f ./a"}},
		{"in a substitution", head + "x=$(sudo id)", []string{"3 not captured sudo id"}},
		{"words that are none", head + "echo 'sudo id' \"; perf stat\" gdb\n./perf.sh\n", nil},
		{"lines within quotes", head + "python3 -c '\nimport os\nperf = 1\n'\nperf stat ls", []string{"7 not captured perf stat ls"}},
		{"here-documents", head + "cat <<E <<-'F' >x\nsudo a\nE\nperf b\n\tF\ngdb c", []string{"8 not captured gdb c"}},
		{"here-string", head + "cat <<< x\nsudo id", []string{"4 not captured sudo id"}},
		{"redirections", head + "sudo id &>log 2>&1", []string{"3 not captured sudo id log 2 1"}},
		{"another language", "#!/usr/bin/env python3\n#SBATCH --singularity --no-requeue\nsudo = 1\n", []string{"2 unprotected #SBATCH --no-requeue"}},
		{"a long line", head + "sudo " + strings.Repeat("ä", 100), []string{"3 not captured sudo " + strings.Repeat("ä", 54) + "…"}},
		{"watches", head + "inotifywait -m data", []string{"3 not captured inotifywait -m data"}},
		{"lines of another system", strings.ReplaceAll(head+"sudo id\n", "\n", "\r\n"), []string{"3 not captured sudo id"}},
	} {
		var got []string
		for _, f := range Find(c.script) {
			got = append(got, fmt.Sprint(f.Line, " ", f.Level, " ", f.What))
			if f.Do == "" {
				t.Errorf("%s: the finding %s has no Do", c.name, f.What)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestWatchesOnOverlays: the finding about watches agrees with docs/silent-gaps.md and TestInotify of tests/cluster:
// on overlay file systems they are not captured, elsewhere they are.
func TestWatchesOnOverlays(t *testing.T) {
	found := Find("#!/bin/bash\n#SBATCH --singularity\ninotifywatch data\n")
	if len(found) != 1 || !strings.Contains(found[0].Do, "on an overlay file system") || !strings.Contains(found[0].Do, "a folder of another file system") {
		t.Errorf("Find of inotifywatch = %+v", found)
	}
}

// FuzzFind: no text ends the program, and lines are the script's.
func FuzzFind(f *testing.F) {
	f.Add("#!/bin/sh\n#SBATCH --no-requeue\nsrun 'a\n' \\\n\"b <<E\nE\n`sudo`")
	f.Add("\\\n<<")
	f.Fuzz(func(t *testing.T, text string) {
		for _, found := range Find(text) {
			if found.Line < 0 || found.Line > strings.Count(text, "\n")+1 {
				t.Errorf("finding at line %d, which the script does not have", found.Line)
			}
		}
	})
}
