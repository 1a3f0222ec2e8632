// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A container of a job is an OCI bundle that Slurm was given with --container. CRIU restores no
// program with processes in a mount, user or PID namespace below the capsule's. So the capsule
// shows the container's root as a folder, and the program has that folder as its root (chroot): it
// is in the capsule's namespaces, as any other program, with the job's user ids.
//
// Init makes the mounts, because only root may. The user chooses the sources and targets, so init opens each path with
// the user's rights, below the container's root only, and binds recursively (a bind without the mounts below would show
// folders that the capsule covers: the node's own /tmp). A program that has such a root must have no_new_privs: a
// set-user-ID program would trust the user's /etc and the user's libraries.

// Container is a container of a capsule: Plan says which files the capsule shows at Root.
type Container struct {
	Plan ContainerPlan `json:"plan"`
	Root string        `json:"root"` // path in the capsule; the same plan has the same path on every node

	Programs []string `json:"programs,omitempty"` // programs that have it for their root; empty: not known
}

// ContainerPlan has the parts of a container. Paths are the capsule's.
type ContainerPlan struct {
	Rootfs   string           `json:"rootfs"`
	ReadOnly bool             `json:"read_only,omitempty"`
	Cwd      string           `json:"cwd"` // in the container
	Mounts   []ContainerMount `json:"mounts"`
	Name     string           `json:"name,omitempty"` // of the folder, for a JoinedContainer; "": by the plan itself
}

// ContainerMount shows Source at Target.
type ContainerMount struct {
	Source   string `json:"source"` // path in the capsule
	Target   string `json:"target"` // path in the container
	ReadOnly bool   `json:"read_only,omitempty"`
	Make     bool   `json:"make,omitempty"`     // Source is a folder that is made if it is missing
	Optional bool   `json:"optional,omitempty"` // left out if the container has no Target
}

// ContainerRequest says which container a task wants.
type ContainerRequest struct {
	Bundle string // folder with config.json; without that file the folder is the root itself
	Script string // a file of the capsule that the container shows at ContainerScript; "": no script
}

// User has the rights with which a container's paths are opened.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// ContainerScript is where a container has the job's batch script, as with Slurm's own runtimes.
const ContainerScript = "/tmp/slurm/startup"

// Limits of the files that init reads and of the mounts that it makes for a user.
const (
	maxConfig          = 1 << 20
	maxContainers      = 64
	maxContainerMounts = 128
	maxPlan            = pageSize

	// maxMountsOfContainers bounds the mounts in all containers of a capsule. The kernel allows 100,000 mounts in a
	// namespace (fs.mount-max), and a mount on the node fails if it would appear in a namespace that is full.
	maxMountsOfContainers = 8192
)

// ociConfig is the part of an OCI runtime's config.json that a container of a capsule follows. The
// rest is about namespaces, users and limits, which are the job's.
type ociConfig struct {
	Root struct {
		Path     string
		ReadOnly bool
	}
	Process struct{ Cwd string }
	Mounts  []ociMount
}

type ociMount struct {
	Destination, Type, Source string
	Options                   []string
}

// ownFolders has the folders that replace a container's tmpfs mounts: they travel with the capsule's /tmp.
const ownFolders = "/tmp/.singularity-containers"

// planContainer makes a plan from a config.json. Without config the bundle itself is the root.
func planContainer(want ContainerRequest, config []byte) (ContainerPlan, error) {
	plan := ContainerPlan{Rootfs: want.Bundle, Cwd: "/"}
	if !filepath.IsAbs(want.Bundle) {
		return plan, errors.New("want the absolute path of a bundle")
	}
	var oci ociConfig
	if config != nil {
		if err := json.Unmarshal(config, &oci); err != nil {
			return plan, fmt.Errorf("config.json: %w", err)
		}
		if oci.Root.Path == "" {
			return plan, errors.New("config.json has no root.path")
		}
		plan.Rootfs, plan.ReadOnly = absoluteFrom(want.Bundle, oci.Root.Path), oci.Root.ReadOnly
		if oci.Process.Cwd != "" {
			plan.Cwd = path.Join("/", oci.Process.Cwd)
		}
	}
	plan.Mounts = []ContainerMount{{Source: "/proc", Target: "/proc"}, {Source: "/sys", Target: "/sys"}, {Source: "/dev", Target: "/dev"}}
	for _, m := range oci.Mounts {
		mount, given, err := m.planMount(want.Bundle)
		if err != nil {
			return plan, err
		}
		if !given {
			plan.Mounts = append(plan.Mounts, mount)
		}
	}
	// So the names of the job's nodes mean its capsules in the container, too.
	plan.Mounts = append(plan.Mounts, ContainerMount{Source: "/etc/hosts", Target: "/etc/hosts", ReadOnly: true, Optional: true})
	if want.Script != "" {
		plan.Mounts = append(plan.Mounts, ContainerMount{Source: want.Script, Target: ContainerScript, ReadOnly: true})
	}
	return plan, plan.checkBounds()
}

// planMount returns the mount of a plan for a mount of config.json. given says that every container has it from the
// capsule.
func (m ociMount) planMount(bundle string) (_ ContainerMount, given bool, _ error) {
	target := path.Join("/", m.Destination)
	none := ContainerMount{}
	switch {
	case target == "/":
		return none, false, fmt.Errorf("config.json: mount at %q: it would cover the container's root", m.Destination)
	case isBelow(target, "/proc") || isBelow(target, "/sys") || isBelow(target, "/dev"):
		if isBind(m) && target != "/dev" && target != "/proc" && target != "/sys" {
			break
		}
		return none, true, nil
	case m.Type == "tmpfs" && (target == "/tmp" || target == "/var/tmp"):
		return ContainerMount{Source: target, Target: target}, false, nil
	case m.Type == "tmpfs":
		name := strings.ReplaceAll(strings.TrimPrefix(target, "/"), "/", "_")
		return ContainerMount{Source: path.Join(ownFolders, name), Target: target, Make: true}, false, nil
	}
	if !isBind(m) {
		return none, false, fmt.Errorf("config.json: mount at %s: type %q is not supported in a protected job: want bind or tmpfs", target, m.Type)
	}
	if m.Source == "" {
		return none, false, fmt.Errorf("config.json: mount at %s has no source", target)
	}
	return ContainerMount{Source: absoluteFrom(bundle, m.Source), Target: target, ReadOnly: slices.Contains(m.Options, "ro")}, false, nil
}

func isBind(m ociMount) bool {
	return m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

// isBelow tells whether a clean path is folder or below it.
func isBelow(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

func absoluteFrom(folder, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(folder, p)
}

// checkBounds returns an error if a plan asks init for more than the limits.
func (p ContainerPlan) checkBounds() error {
	if len(p.Mounts) > maxContainerMounts {
		return fmt.Errorf("the container has %d mounts, more than %d", len(p.Mounts), maxContainerMounts)
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if len(b) > maxPlan {
		return fmt.Errorf("the container's mounts take %d bytes to describe, more than %d", len(b), maxPlan)
	}
	return nil
}

// folderName is a name that differs between any two plans.
func (p ContainerPlan) folderName() string {
	if p.Name != "" {
		return p.Name
	}
	b, _ := json.Marshal(p) // plain fields: cannot fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// RealPath returns the path by which the capsule shows a file that has a path below a container's root; a path that is
// not below the root is returned unchanged.
func (c Container) RealPath(p string) string {
	if !isBelow(p, c.Root) {
		return p
	}
	return c.Plan.sourceAt(path.Join("/", strings.TrimPrefix(p, c.Root)))
}

// sourceAt returns the path in the capsule of the files that a plan shows at a path of the container.
func (p ContainerPlan) sourceAt(inside string) string {
	source, longest := path.Join(p.Rootfs, inside), 0
	for _, m := range p.Mounts {
		if isBelow(inside, m.Target) && len(m.Target) >= longest {
			source, longest = path.Join(m.Source, strings.TrimPrefix(inside, m.Target)), len(m.Target)
		}
	}
	return source
}

// OpenContainer has the capsule show a program a container, which it reads from its bundle with the user's
// rights. A container that is shown already is returned again. It is shown until the last of its programs has
// ended, and all processes of that program with it: before the program's warden, and so Slurm, hears of the end.
func (c *Capsule) OpenContainer(ctx context.Context, want ContainerRequest, program string, as User) (Container, error) {
	return c.askContainer(ctx, request{Op: opContainer, Container: &containerOrder{Want: &want, Programs: []string{program}, As: as}})
}

// ShowJoined has the capsule show a program a container that another plugin has made. The plan of a container that is
// shown already counts. The calling process must be the node's.
func (c *Capsule) ShowJoined(ctx context.Context, plan ContainerPlan, program string, as User) (Container, error) {
	return c.askContainer(ctx, request{Op: opContainer, Container: &containerOrder{Plan: &plan, Programs: []string{program}, As: as, NodePID: os.Getpid()}})
}

// RestoreContainer has the capsule show its programs a container as it was shown before. If the programs are not known,
// the container is shown for the rest of the capsule's life.
func (c *Capsule) RestoreContainer(ctx context.Context, was Container, as User) error {
	_, err := c.askContainer(ctx, request{Op: opContainer, Container: &containerOrder{Plan: &was.Plan, Programs: was.Programs, As: as}})
	return err
}

func (c *Capsule) askContainer(ctx context.Context, ask request) (Container, error) {
	got, _, err := c.callInit(ctx, ask)
	if err != nil {
		return Container{}, err
	}
	if got.Container == nil {
		return Container{}, c.withCapsule("container", errors.New("init sent no container"))
	}
	return *got.Container, nil
}

// MakeSpoolFolder makes a folder of the user in a folder of root's that only the capsule has. Where places covers
// slurmstepd's spool folder, the capsule does not see files that slurmstepd makes there later for a step with a
// container, and slurmstepd ends the task when it cannot write there. If the parent is another folder, no folder is
// made.
func (c *Capsule) MakeSpoolFolder(ctx context.Context, path string, as User) error {
	return c.orderInit(ctx, request{Op: opContainer, Container: &containerOrder{Spool: path, As: as}})
}

// containerOrder is a request for a container, of a bundle or of a plan, or for a spool folder.
type containerOrder struct {
	Want  *ContainerRequest `json:",omitempty"`
	Plan  *ContainerPlan    `json:",omitempty"`
	Spool string            `json:",omitempty"`
	As    User

	Programs []string `json:",omitempty"`
	NodePID  int      `json:",omitempty"` // the plan's root is a path of the node's, as this process of the node sees it
}
