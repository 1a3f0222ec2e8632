// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrExhausted means that the range has no free block of the size that a job needs.
var ErrExhausted = errors.New("no free addresses")

// Pool gives jobs blocks of addresses. A Pool is a folder that all nodes of the cluster share; any
// number of processes may use it at once, and any of them may be killed at any moment.
//
//	range                      the range, as text
//	blocks/<block>/            free if empty, or not there
//	  <job>~<nonce>              a claim: the job that has the block
//	jobs/<job>/                the block that a job has, and claims that it began
//	  <nonce>.new/               a claim that is not in a block yet
//	  <block>~<nonce>            an intention: that claim may be in this block
//	  decided                    the block that the job has; a hard link to an intention
//	gone/<job>~<nonce>/        such a folder, being given back
//
// The pool relies only on this: the file system renames and links in a single step. To claim a
// block is to rename a folder with the claim in it to blocks/<block>: that fails unless the name is
// free or an empty folder. A claim's name is never used again. So to remove a claim late, or twice,
// takes no block away from a successor. A job's folder is moved away before its claims go: a
// process that was about to decide there does so in a folder that is not used any more.
//
// Blocks of different sizes lie in different parts of the range, so blocks with different names
// have no address in common. Therefore a small range is soon full: in a /24 only 62 jobs of one
// node get a block, in the default range 260000.
type Pool struct {
	dir   string
	space netip.Prefix
	share int // log2 of the addresses that each size of block has

	step func(string) // called by tests before each change of the folder
}

// biggest is log2 of the largest number of nodes of a job.
const biggest = 15

// OpenPool opens the pool in dir, and creates dir if it is missing. All nodes must give the same
// range; a range that differs from the folder's is an error. Only root may have write access to
// dir.
func OpenPool(dir string, space netip.Prefix) (*Pool, error) {
	c := Config{Range: space}
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	p := &Pool{dir: dir, space: c.Range, step: func(string) {}}
	for s := range 32 - p.space.Bits() {
		if p.sizeCount(s)<<s <= 1<<(32-p.space.Bits()) {
			p.share = s
		}
	}
	for _, d := range []string{"", "blocks", "jobs", "gone"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	if err := p.fixRange(); err != nil {
		return nil, fmt.Errorf("addresses in %s: %w", dir, err)
	}
	return p, nil
}

// fixRange writes the range into the folder, if the folder has no range yet, and checks that the
// folder is of this range.
func (p *Pool) fixRange() error {
	path, mine := filepath.Join(p.dir, "range"), filepath.Join(p.dir, "range~"+rand.Text())
	err := os.WriteFile(mine, []byte(p.space.String()+"\n"), 0o600)
	if err == nil {
		if err = os.Link(mine, path); errors.Is(err, fs.ErrExist) {
			err = nil
		}
		err = errors.Join(err, os.Remove(mine))
	}
	if err != nil {
		return err
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if was := strings.TrimSpace(string(got)); was != p.space.String() {
		return fmt.Errorf("they are of %s, not of %s; to change that, end all jobs and remove the folder", was, p.space)
	}
	return nil
}

// Take returns n addresses for the capsules of a job: the job's own, or new ones. A job keeps its
// addresses until Give. The error wraps ErrExhausted if no block is free. After an error of the
// file system Take can be called again.
func (p *Pool) Take(ctx context.Context, job string, n int) ([]netip.Addr, error) {
	if err := checkJob(job); err != nil {
		return nil, err
	}
	if n < 1 || n > 1<<min(biggest, p.share) {
		return nil, fmt.Errorf("job %s: %d addresses: want 1 to %d", job, n, 1<<min(biggest, p.share))
	}
	for {
		b, err := p.takeBlock(ctx, job, bits.Len(uint(n-1)))
		if errors.Is(err, errGivenBack) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("addresses of job %s: %w", job, err)
		}
		if n > 1<<b.size {
			return nil, fmt.Errorf("addresses of job %s: it has %d, and cannot have %d", job, 1<<b.size, n)
		}
		addrs := make([]netip.Addr, n)
		for i := range addrs {
			addrs[i] = p.blockAddress(b, i)
		}
		return addrs, nil
	}
}

// Give releases a job's addresses. Call it when the job is over on all nodes. It may be called
// again, and for a job without addresses.
func (p *Pool) Give(ctx context.Context, job string) error {
	if err := checkJob(job); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	name := job + "~" + rand.Text()
	p.step("move the job's folder away")
	err := os.Rename(filepath.Join(p.dir, "jobs", job), filepath.Join(p.dir, "gone", name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = p.finishGive(name)
	}
	if err != nil {
		return fmt.Errorf("give back addresses of job %s: %w", job, err)
	}
	return nil
}

// Jobs returns the jobs that have addresses, or for which a killed process was taking some. Call
// Give for the jobs that are over. Jobs also completes a Give that was killed.
func (p *Pool) Jobs() ([]string, error) {
	gone, err := readNames(filepath.Join(p.dir, "gone"))
	if err != nil {
		return nil, err
	}
	for _, name := range gone {
		if err := p.finishGive(name); err != nil {
			return nil, fmt.Errorf("give back addresses of %s: %w", name, err)
		}
	}
	return readNames(filepath.Join(p.dir, "jobs"))
}

// finishGive releases all claims in a job's folder, and removes the folder. Several processes
// may do so at once.
func (p *Pool) finishGive(name string) error {
	job, _, _ := strings.Cut(name, "~")
	dir, err := openFolder(filepath.Join(p.dir, "gone", name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		// A process that opened the folder before the move may still work in it. First the claims
		// that it could still enter are removed, then the entered claims: an intention is written
		// before the claim is renamed.
		entries, err := dir.listNames()
		if err != nil {
			return err
		}
		for _, e := range entries {
			if nonce, ok := strings.CutSuffix(e, newSuffix); ok {
				p.step("remove a claim not made")
				if err := errors.Join(dir.remove(e+"/"+job+"~"+nonce), dir.rmdir(e)); err != nil {
					return err
				}
			}
		}
		if entries, err = dir.listNames(); err != nil {
			return err
		}
		for _, e := range entries {
			if b, nonce, ok := parseIntention(e); ok {
				if err := p.releaseClaim(b, job, nonce); err != nil {
					return err
				}
			}
			if !strings.HasSuffix(e, newSuffix) {
				p.step("remove " + e)
				if err := dir.remove(e); err != nil {
					return err
				}
			}
		}
		p.step("remove the job's folder")
		err = unix.Rmdir(filepath.Join(p.dir, "gone", name))
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !notEmpty(err) {
			return err
		}
	}
}
