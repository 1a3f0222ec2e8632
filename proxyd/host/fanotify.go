// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func checkFanotify(context.Context, *node) Finding {
	return fanotifyFinding(Fanotify.Recheck(), fanotifyGroups(), runtime.NumCPU())
}

// maxGroups is the kernel's limit on a user's groups of fanotify. Each capsule takes a group of
// root's, and so do other programs of root that watch files.
const maxGroups = "fs.fanotify.max_user_groups"

// fanotifyFinding is the finding for a probe's answer and for maxGroups, 0 if that number is not
// known, on a node of so many cores.
func fanotifyFinding(probe error, groups, cores int) Finding {
	f := Finding{Name: "kernel: fanotify", Needs: "fanotify, to see files that static programs write, for as many capsules as there may be"}
	enough := fmt.Sprintf("sysctl -w %s=%d, and the same in /etc/sysctl.d: more than there can be jobs on the node", maxGroups, max(1024, 2*cores))
	switch {
	case errors.Is(probe, unix.EMFILE):
		return f.withProblem(Warn, fmt.Sprintf("all %d of %s are in use", groups, maxGroups), enough)
	case probe != nil:
		return f.withProblem(Warn, probe.Error(), "boot a kernel with CONFIG_FANOTIFY")
	case groups == 0:
		return f.withOK("there")
	case groups < 2*cores: // a job on each core, and other programs that watch
		return f.withProblem(Warn, fmt.Sprintf("for %d capsules (%s), on %d cores", groups, maxGroups, cores), enough)
	}
	return f.withOK(fmt.Sprintf("for %d capsules", groups))
}

// fanotifyGroups reads maxGroups; 0: a kernel before 5.13, which does not tell its limit.
func fanotifyGroups() int {
	b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(maxGroups, ".", "/"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return n
}
