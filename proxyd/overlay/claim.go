// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

// errGivenBack means that the job's addresses were given back while they were being taken.
var errGivenBack = errors.New("given back meanwhile")

const (
	decided   = "decided"
	newSuffix = ".new"
)

// block is 2^size addresses.
type block struct{ size, index int }

func (b block) String() string { return fmt.Sprintf("%d-%d", b.size, b.index) }

// parseIntention reads <block>~<nonce>.
func parseIntention(s string) (b block, nonce string, ok bool) {
	text, nonce, ok := strings.Cut(s, "~")
	if !ok {
		return b, "", false
	}
	if _, err := fmt.Sscanf(text, "%d-%d", &b.size, &b.index); err != nil || b.String() != text {
		return b, "", false
	}
	return b, nonce, nonce != ""
}

// sizeCount returns the number of block sizes, if each size has 2^share addresses.
func (p *Pool) sizeCount(share int) int { return min(biggest, share) + 1 }

// blockAddress returns address i of a block.
func (p *Pool) blockAddress(b block, i int) netip.Addr {
	base := binary.BigEndian.Uint32(p.space.Addr().AsSlice())
	offset := uint32(b.size)<<p.share | uint32(b.index)<<b.size | uint32(i)
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, base|offset)))
}

// isUsable tells whether a block avoids the first and the last address of the range, which some
// programs take for the network and the broadcast address.
func (p *Pool) isUsable(b block) bool {
	last := p.blockAddress(b, 1<<b.size-1)
	return p.blockAddress(b, 0) != p.space.Addr() && p.space.Contains(last.Next())
}

// candidateBlocks returns the blocks that a job tries, in order: beginning at a block that depends
// on the job's name: first blocks that seem unused, then others, then larger blocks.
func (p *Pool) candidateBlocks(job string, size int, seen map[string]bool) iter.Seq[block] {
	sum := sha256.Sum256([]byte(job))
	start := binary.BigEndian.Uint64(sum[:])
	return func(yield func(block) bool) {
		for ; size < p.sizeCount(p.share); size++ {
			n := uint64(1) << (p.share - size)
			for _, again := range []bool{false, true} {
				for i := range n {
					b := block{size, int((start + i) % n)}
					if seen[b.String()] == again && p.isUsable(b) && !yield(b) {
						return
					}
				}
			}
		}
	}
}

// takeBlock returns the block that a job has after this call.
func (p *Pool) takeBlock(ctx context.Context, job string, size int) (block, error) {
	path := filepath.Join(p.dir, "jobs", job)
	p.step("make the job's folder")
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return block{}, err
	}
	// From here on the folder is used by descriptor: this process can work in it even after a move.
	dir, err := openFolder(path)
	if err != nil {
		return block{}, wrapGivenBack(err)
	}
	defer dir.Close()
	if b, ok, err := dir.decidedBlock(); ok || err != nil {
		return b, err
	}
	if ok, err := p.adoptClaim(dir, job); err != nil {
		return block{}, err
	} else if !ok {
		if err := p.claimBlock(ctx, dir, job, size); err != nil {
			if errors.Is(err, ErrExhausted) {
				_ = unix.Rmdir(path) // fails if another process works in the folder
			}
			return block{}, err
		}
	}
	b, ok, err := dir.decidedBlock()
	if err == nil && !ok {
		err = errGivenBack
	}
	return b, err
}

// adoptClaim decides in favour of a claim that another process made for this job, if there is one:
// that process may have been killed. If it still runs, its own decision has the same result.
func (p *Pool) adoptClaim(dir *folder, job string) (bool, error) {
	entries, err := dir.listNames()
	if err != nil {
		return false, wrapGivenBack(err)
	}
	for _, e := range entries {
		b, nonce, ok := parseIntention(e)
		if !ok || !p.isClaimed(b, job, nonce) {
			continue
		}
		return true, p.decideBlock(dir, e)
	}
	return false, nil
}

// claimBlock claims a block and decides in its favour, unless another process has decided by then.
func (p *Pool) claimBlock(ctx context.Context, dir *folder, job string, size int) error {
	nonce := rand.Text()
	claim := nonce + newSuffix
	p.step("make a claim")
	if err := dir.mkdir(claim); err != nil {
		return wrapGivenBack(err)
	}
	p.step("name it")
	if err := dir.writeFile(claim+"/"+job+"~"+nonce, ""); err != nil {
		return wrapGivenBack(err)
	}
	seen := map[string]bool{}
	names, err := readNames(filepath.Join(p.dir, "blocks"))
	if err != nil {
		return err
	}
	for _, n := range names {
		seen[n] = true
	}
	for b := range p.candidateBlocks(job, size, seen) {
		if err := ctx.Err(); err != nil {
			return err
		}
		intention := b.String() + "~" + nonce
		p.step("intend " + b.String())
		if err := dir.writeFile(intention, intention); err != nil {
			return wrapGivenBack(err)
		}
		p.step("claim " + b.String())
		got, err := p.enterBlock(dir, claim, b, job, nonce)
		if err != nil {
			return wrapGivenBack(err)
		}
		if got {
			return p.settleClaim(dir, b, job, nonce)
		}
		p.step("give up " + b.String())
		if err := dir.remove(intention); err != nil {
			return wrapGivenBack(err)
		}
	}
	p.step("give up")
	return errors.Join(ErrExhausted, dir.remove(claim+"/"+job+"~"+nonce), dir.rmdir(claim))
}

// enterBlock renames a claim into a block, if the block is free.
func (p *Pool) enterBlock(dir *folder, claim string, b block, job, nonce string) (bool, error) {
	target := filepath.Join(p.dir, "blocks", b.String())
	err := unix.Renameat(int(dir.Fd()), claim, unix.AT_FDCWD, target)
	// Not every file system can rename to an empty folder. And NFS may report the failure of a
	// request that it repeated, although the first request succeeded.
	if notEmpty(err) && unix.Rmdir(target) == nil {
		err = unix.Renameat(int(dir.Fd()), claim, unix.AT_FDCWD, target)
	}
	if err != nil && p.isClaimed(b, job, nonce) {
		err = nil
	}
	if notEmpty(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim %s: %w", b, err)
	}
	return true, durable.SyncFolder(filepath.Join(p.dir, "blocks"))
}

// settleClaim decides in favour of a claim, or removes the claim if the job has another block by
// now. After an error settleClaim leaves the claim alone: the decision may have been made.
func (p *Pool) settleClaim(dir *folder, b block, job, nonce string) error {
	intention := b.String() + "~" + nonce
	if err := p.decideBlock(dir, intention); err != nil {
		return err
	}
	has, ok, err := dir.decidedBlock()
	if err != nil || !ok || has == b {
		return err
	}
	return errors.Join(p.releaseClaim(b, job, nonce), dir.remove(intention))
}

// decideBlock gives the job the block of an intention, unless the job has a block already.
func (p *Pool) decideBlock(dir *folder, intention string) error {
	p.step("decide " + intention)
	err := unix.Linkat(int(dir.Fd()), intention, int(dir.Fd()), decided, 0)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return wrapGivenBack(fmt.Errorf("decide: %w", err))
	}
	return dir.Sync()
}

// isClaimed tells whether a claim is in its block.
func (p *Pool) isClaimed(b block, job, nonce string) bool {
	_, err := os.Lstat(filepath.Join(p.dir, "blocks", b.String(), job+"~"+nonce))
	return err == nil
}

// releaseClaim removes a claim from its block, and removes the block's folder if that is empty
// then.
func (p *Pool) releaseClaim(b block, job, nonce string) error {
	path := filepath.Join(p.dir, "blocks", b.String())
	p.step("release " + b.String())
	if err := os.Remove(filepath.Join(path, job+"~"+nonce)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.step("tidy " + b.String())
	if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) && !notEmpty(err) {
		return err
	}
	return nil
}

// wrapGivenBack turns the errors of operations in a removed folder into errGivenBack.
func wrapGivenBack(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESTALE) {
		return fmt.Errorf("%w: %w", errGivenBack, err)
	}
	return err
}

func notEmpty(err error) bool {
	return errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST)
}
