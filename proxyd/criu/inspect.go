// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// silent are descriptors that CRIU stumbles over without naming them: the kernel does not
// let its parasite send them.
var silent = []struct{ link, text string }{
	{"anon_inode:[io_uring]", "WHO uses io_uring"},
}

var unnamed = regexp.MustCompile(`^Can't dump file (\d+) of that type`)

// addLink adds what a descriptor is to a complaint that only tells its number.
func (c complaint) addLink(members map[int]member) complaint {
	m := unnamed.FindStringSubmatch(c.text)
	if m == nil {
		return c
	}
	if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", members[c.pid].host, m[1])); err == nil {
		c.text += " is " + link
	}
	return c
}

// findSilent looks for what is silent in a tree that could not be dumped; "" if nothing is.
func findSilent(members map[int]member, root int) string {
	for _, m := range findDescendants(members, []int{root}) {
		dir := fmt.Sprintf("/proc/%d/fd/", m.host)
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue // the process has ended
		}
		for _, fd := range fds {
			link, err := os.Readlink(dir + fd.Name())
			if err != nil {
				continue
			}
			for _, s := range silent {
				if link == s.link {
					return strings.ReplaceAll(s.text, "WHO", nameProcess(m.pid, func(int) string { return m.name }))
				}
			}
		}
	}
	return ""
}
