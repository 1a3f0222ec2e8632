// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestContainersOfPrograms: a checkpoint has the containers of the programs that run, and no container of programs that have
// ended: its bundle may have been removed.
func TestContainersOfPrograms(t *testing.T) {
	t.Parallel()
	n := capsuleNote{Containers: []capsule.Container{{Root: "/c/old"}}} // of an earlier release: its programs are not known
	add := func(root, program string) { n.addContainer(capsule.Container{Root: root}, program) }
	show := func(all []capsule.Container) string {
		text := ""
		for _, c := range all {
			text += fmt.Sprint(c.Root, c.Programs, " ")
		}
		return text
	}
	dumped := func(names ...string) string {
		var programs []capsule.Program
		for _, name := range names {
			programs = append(programs, capsule.Program{Name: name})
		}
		return show(containersOf(n.Containers, programs))
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}

	add("/c/1", "0.0")
	add("/c/1", "0.1")
	add("/c/1", "0.1")
	add("/c/2", "1.0")
	add("/c/old", "2.0")
	check("shown", show(n.Containers), "/c/old[] /c/1[0.0 0.1] /c/2[1.0] ")
	check("not all run", dumped("batch", "0.1"), "/c/old[] /c/1[0.1] ")
	n.endContainers("0.0")
	n.endContainers("2.0")
	check("one has ended", show(n.Containers), "/c/old[] /c/1[0.1] /c/2[1.0] ")
	n.endContainers("0.1")
	check("both have ended", show(n.Containers)+"past "+show(n.PastContainers), "/c/old[] /c/2[1.0] past /c/1[] ")
	add("/c/1", "3.0")
	check("shown again", dumped("3.0", "1.0"), "/c/old[] /c/2[1.0] /c/1[3.0] ")
	for i := range 2 * maxPastContainers {
		add("/c/more", fmt.Sprint(i, ".0"))
		n.endContainers(fmt.Sprint(i, ".0"))
	}
	if got := len(n.PastContainers); got != maxPastContainers {
		t.Errorf("%d that have ended are kept", got)
	}
}
