// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/criu"
)

// MissingToolError names a program that the build needs and that is not installed.
type MissingToolError struct{ Tool, Package string }

func (e *MissingToolError) Error() string {
	return fmt.Sprintf("%s is not installed: apt-get install %s", e.Tool, e.Package)
}

// BuildError is a build that failed. Its text is a line with apt's own reason; the file Log has the
// whole output.
type BuildError struct {
	Variant string
	Reason  string
	Log     string
	noSpace bool // a line said that the disk is full
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("build %s: %s (log: %s)", e.Variant, e.Reason, e.Log)
}

func findTool() (string, error) {
	path, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return "", &MissingToolError{Tool: "mmdebstrap", Package: "mmdebstrap"}
	}
	return path, nil
}

// buildJob is a build with all of its decisions made.
type buildJob struct {
	cache  string
	dir    string // the finished tree's name
	recipe recipe
	source source
	tool   string // mmdebstrap
	criu   string // the package of CRIU for the tree, "" for the suite's own
	lock   *os.File
	report *reporter
}

// buildTree makes the tree in a folder of its own and gives the tree its name at the very end.
// In every case, the folder is removed when buildTree returns.
func buildTree(ctx context.Context, j buildJob) (err error) {
	work, err := os.MkdirTemp(j.cache, buildingPrefix+j.recipe.variantName()+".")
	if err != nil {
		return err
	}
	defer func() {
		if e := removeAll(work); e != nil && err == nil {
			err = e
		}
	}()
	args, err := j.prepareBuild(work)
	if err != nil {
		return err
	}
	if err := j.runBuilder(ctx, work, args); err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	if !isDir(root) {
		return j.buildFailed(transcript{complaint: "mmdebstrap made no tree"}, nil)
	}
	// For root alone: the tree has set-user-ID programs that get no updates. The mode does not affect
	// clusters: their root folder is that of a layer above.
	if err := os.Chmod(root, 0o700); err != nil {
		return err
	}
	return os.Rename(root, j.dir)
}

// prepareBuild writes mmdebstrap's input files into work and returns its arguments. Mirrors and
// proxies may hold passwords: they go into files (work is 0700), not onto a command line that all
// users can read.
func (j buildJob) prepareBuild(work string) ([]string, error) {
	r := j.recipe
	in := func(name string) string { return filepath.Join(work, name) }
	sources := j.source.sourcesList("deb", r.suite.Name, in("mirror.asc"))
	if r.forCRIU {
		sources += j.source.sourcesList("deb-src", suites[0].Name, in("mirror.asc"))
	}
	for _, f := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{"sources.list", sources, 0o600},
		{"mirror.asc", strings.TrimSpace(j.source.InlineKey) + "\n", 0o644},
		{"apt.conf", strings.Join(r.aptOptions(), ";\n") + ";\n" + strings.Join(j.source.options, "\n") + "\n", 0o600},
		{"dpkg.cfg", strings.Join(r.dpkg, "\n") + "\n", 0o644},
		{"essential", r.essential, 0o700},
		{"customize", r.customize, 0o700},
		{"criu", criuHook, 0o700},
		{"build", criu.Script, 0o700},
	} {
		if err := os.WriteFile(in(f.name), []byte(f.text), f.mode); err != nil {
			return nil, err
		}
	}
	// apt reads as user _apt, and this user must be able to reach the tree and the key.
	if err := os.Chmod(work, 0o711); err != nil {
		return nil, err
	}
	if r.forCRIU { // the script makes its folder in TMPDIR
		return []string{"env", "TMPDIR=" + work, "MMDEBSTRAP=" + j.tool, in("build"), "--sources", in("sources.list"), "--apt-conf", in("apt.conf"), r.suite.Name, in("root")}, nil
	}
	args := []string{
		j.tool, "--verbose", "--mode=root", "--format=directory", "--variant=minbase",
		"--include=" + strings.Join(r.packages, ","),
		"--aptopt=" + in("apt.conf"), "--dpkgopt=" + in("dpkg.cfg"),
		"--essential-hook=" + in("essential"),
	}
	if j.criu != "" {
		if err := os.Symlink(j.criu, in("criu.deb")); err != nil {
			return nil, err
		}
		args = append(args, "--customize-hook="+in("criu"))
	}
	args = append(args, "--customize-hook="+in("customize"))
	if len(j.source.SignedBy) > 0 { // else mmdebstrap finds the key with gpg's help
		args = append(args, "--skip=check/signed-by")
	}
	return append(args, r.suite.Name, in("root"), in("sources.list")), nil
}

// runBuilder starts the builder, follows its output and waits for its end.
func (j buildJob) runBuilder(ctx context.Context, work string, args []string) error {
	log, err := os.OpenFile(j.logPath(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	said, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	lifeline, alive, err := os.Pipe()
	if err != nil {
		out.Close()
		return err
	}
	// The builder ends when alive is closed: by us, or by the kernel after us.
	defer alive.Close()

	cmd := builderCommand(work, args, out, lifeline, j.lock)
	err = cmd.Start()
	out.Close()
	lifeline.Close()
	if err != nil {
		return fmt.Errorf("start the builder in namespaces of its own: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()

	t := followBuilder(said, log, j.report)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("build %s: %w", j.recipe.variantName(), context.Cause(ctx))
	}
	if err != nil {
		return j.buildFailed(t, err)
	}
	return nil
}

func (j buildJob) buildFailed(t transcript, err error) error {
	return &BuildError{Variant: j.recipe.variantName(), Reason: t.failureReason(err), Log: j.logPath(), noSpace: t.noSpace}
}

func (j buildJob) logPath() string { return filepath.Join(j.cache, j.recipe.variantName()+".log") }

// builderCommand is this program again, as first process of namespaces of its own and in a session
// of its own: a terminal's Ctrl-C is for the parent alone. Both processes have the lock, so that it
// is free only when both are gone.
func builderCommand(work string, args []string, out, lifeline, lock *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{BuilderArg}, args...)...)
	cmd.Dir = work
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{lifeline, lock} // lifelineFD, lockFD
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Setsid:     true,
	}
	return cmd
}

// transcript is the part of a build's output that an error message needs.
type transcript struct {
	complaint string // the first line about an error: later lines are often its consequences
	last      string
	noSpace   bool
}

// followBuilder copies the builder's output to log and feeds the reporter, until every process of
// the build has closed the output. A log that cannot be written (the disk may be full) does not
// stop a build.
func followBuilder(said io.Reader, log io.Writer, report *reporter) transcript {
	var t transcript
	var p parser
	in := bufio.NewReaderSize(said, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			_, _ = log.Write(line)
			text := string(bytes.TrimRight(line, "\r\n"))
			t.addLine(text)
			if now, changed := p.parseLine(text); changed {
				report.setState(now)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return t
		}
	}
}

var (
	noSpaceWords = []string{"No space left on device", "You don't have enough free space in"}
	complaining  = []string{"E: ", "dpkg: error "}
)

func (t *transcript) addLine(s string) {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return
	}
	t.last = s
	t.noSpace = t.noSpace || slices.ContainsFunc(noSpaceWords, func(d string) bool { return strings.Contains(s, d) })
	if t.complaint == "" && slices.ContainsFunc(complaining, func(c string) bool { return strings.HasPrefix(s, c) }) {
		t.complaint = strings.TrimPrefix(s, "E: ")
	}
}

// failureReason returns the end of a failed build in a single line.
func (t *transcript) failureReason(err error) string {
	switch {
	case t.complaint != "":
		return t.complaint
	case t.last != "":
		return fmt.Sprintf("%v after %q", err, t.last)
	}
	return err.Error()
}

// describeError names the cache folder in the system's error, and turns a full disk, at any step,
// into a *SpaceError.
func describeError(cache string, r recipe, err error) error {
	var be *BuildError
	if errors.Is(err, unix.ENOSPC) || errors.As(err, &be) && be.noSpace {
		bytes, _ := r.neededSpace()
		return &SpaceError{Dir: cache, Variant: r.variantName(), Needed: bytes, Full: true}
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		if rel, e := filepath.Rel(cache, pe.Path); e == nil && rel != "." {
			return fmt.Errorf("cache %s: %s %s: %w", cache, pe.Op, pe.Path, pe.Err)
		}
		return fmt.Errorf("cache %s: %w", cache, pe.Err)
	}
	return err
}
