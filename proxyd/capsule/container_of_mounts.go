// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// JoinedContainer is a container that another plugin of Slurm's (pyxis) has made, by putting a process of the task into
// user and mount namespaces of the container's own. No process leaves such a user namespace, so the task's program is
// another process, and the capsule shows that process the same files by their paths in the capsule.
//
// The user controls what is mounted in that mount namespace. So its list of mounts is a wish, like a config.json: it
// says by which paths of the capsule the files are reached, and of the node for the container's root, and init opens
// these paths with the user's rights.
type JoinedContainer struct {
	Step   string         // names the container: the tasks of a step have the same on a node, and again after a restore
	Mounts []mounts.Mount // in the container's mount namespace
	Node   []mounts.Mount // on the node, where the container's root is looked for
	Shown  []mounts.Mount // in the capsule, where all else is
	Folder string         // where the capsule shows containers
	Cwd    string         // in the container
	Script string         // of the batch step: its path in the capsule; "": no script

	ScriptInside string // where the other plugin has mounted the script
}

// whyUnpacked is the cure where a container's files are on no file system of the node's.
const whyUnpacked = "have the image unpacked into a folder (pyxis: use_squashfuse=0)"

// Plan makes the plan of such a container.
func (c JoinedContainer) Plan() (ContainerPlan, error) {
	sum := sha256.Sum256([]byte("joined " + c.Step))
	plan := ContainerPlan{Name: hex.EncodeToString(sum[:8]), Cwd: path.Join("/", c.Cwd)}
	plan.Mounts = []ContainerMount{{Source: "/proc", Target: "/proc"}, {Source: "/sys", Target: "/sys"}, {Source: "/dev", Target: "/dev"}}
	for _, m := range c.Mounts {
		if err := c.addMount(&plan, m); err != nil {
			return plan, err
		}
	}
	if plan.Rootfs == "" {
		return plan, errors.New("its root is not mounted")
	}
	if !slices.ContainsFunc(plan.Mounts, func(m ContainerMount) bool { return m.Target == "/etc/hosts" }) {
		plan.Mounts = append(plan.Mounts, ContainerMount{Source: "/etc/hosts", Target: "/etc/hosts", ReadOnly: true, Optional: true})
	}
	if c.Script != "" {
		plan.Mounts = append(plan.Mounts, ContainerMount{Source: c.Script, Target: ContainerScript, ReadOnly: true})
	}
	return plan, plan.checkBounds()
}

// addMount adds to a plan what a mount of the container is in the capsule.
func (c JoinedContainer) addMount(plan *ContainerPlan, m mounts.Mount) error {
	if m.Point == "/" {
		source, ofNode := c.pathAmong(c.Node, m)
		if !ofNode {
			return fmt.Errorf("its root is a file system of its own (%s), which no other node could show: %s", m.Kind, whyUnpacked)
		}
		if !m.ReadOnly {
			return errors.New("its root can be written, and what is written there would not go along: " +
				"srun --container-readonly, and --container-mounts for what programs write")
		}
		plan.Rootfs, plan.ReadOnly = source, true
		return nil
	}
	source, ofNode := c.pathAmong(c.Shown, m)
	switch {
	case c.Script != "" && m.Point == c.ScriptInside:
		return nil // the script is at ContainerScript
	case isGiven(m, source):
		return nil
	case plan.isOwnRoot(m.Point):
		return nil // The container sees its own root by a second path, with all that is mounted there.
	case !ofNode && m.Kind == "tmpfs" && (m.Point == "/tmp" || m.Point == "/var/tmp"):
		source = m.Point
	case !ofNode && m.Kind == "tmpfs":
		name := strings.ReplaceAll(strings.TrimPrefix(m.Point, "/"), "/", "_")
		plan.Mounts = append(plan.Mounts, ContainerMount{Source: path.Join(ownFolders, name), Target: m.Point, Make: true})
		return nil
	case !ofNode:
		return fmt.Errorf("mount at %s: %s that is not the node's is not supported in a protected job: want a folder of the node's, or tmpfs", m.Point, m.Kind)
	}
	if source != plan.sourceAt(m.Point) || m.ReadOnly && !plan.isReadOnlyAt(m.Point) {
		plan.Mounts = append(plan.Mounts, ContainerMount{Source: source, Target: m.Point, ReadOnly: m.ReadOnly})
	}
	return nil
}

// isGiven tells whether the capsule has a mount of a container's in its own /proc, /sys or /dev: all file systems there
// that are not bound from elsewhere.
func isGiven(m mounts.Mount, source string) bool {
	for _, folder := range []string{"/proc", "/sys", "/dev"} {
		if isBelow(m.Point, folder) {
			return source == "" || isBelow(source, folder)
		}
	}
	return false
}

// pathAmong returns the path of a mount's files, if they are on a file system that is mounted there.
func (c JoinedContainer) pathAmong(all []mounts.Mount, m mounts.Mount) (at string, ok bool) {
	longest := -1
	for _, shown := range all {
		root := strings.TrimSuffix(shown.Root, "/")
		if shown.Device != m.Device || len(root) <= longest || root != "" && !isBelow(m.Root, root) || isBelow(shown.Point, c.Folder) {
			continue
		}
		longest, at, ok = len(root), path.Join(shown.Point, strings.TrimPrefix(m.Root, root)), true
	}
	return at, ok
}

// isOwnRoot tells whether a path of the container leads by a mount to the folder that is the container's root, or below.
func (p ContainerPlan) isOwnRoot(inside string) bool {
	source := p.sourceAt(inside)
	return isBelow(source, p.Rootfs) && source != path.Join(p.Rootfs, inside)
}

// isReadOnlyAt tells whether a plan shows a path of the container read-only.
func (p ContainerPlan) isReadOnlyAt(inside string) bool {
	found := ContainerMount{Target: "/", ReadOnly: p.ReadOnly}
	for _, m := range p.Mounts {
		if isBelow(inside, m.Target) && len(m.Target) >= len(found.Target) {
			found = m
		}
	}
	return found.ReadOnly
}

// IsJoined tells whether another plugin of Slurm's makes the container's files at the start of each run: the capsule
// shows them when the first of its tasks is there.
func (c Container) IsJoined() bool { return c.Plan.Name != "" }
