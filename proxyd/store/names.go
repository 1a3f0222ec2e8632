// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strconv"
	"strings"
)

// The folders of a store; doc.go describes them.
const (
	formatFile     = "format"
	chunksDir      = "chunks"
	manifestsDir   = "manifests"
	deletedDir     = "deleted"
	claimsDir      = "leases"
	generationsDir = "generations"
	collectorDir   = "gc"
	sweepDir       = "sweep"
	trashDir       = "trash"
	tmpDir         = "tmp"
)

const formatText = "singularity-slurm store 1\n"

// chunkFolders is the number of folders for chunks: enough to keep each small enough for NFS to list well, and few
// enough to make all of them durable at a commit.
const chunkFolders = 256

func chunkFolder(first byte) string { return fmt.Sprintf("%s/%02x", chunksDir, first) }

func chunkName(h Hash) string { return chunkFolder(h[0]) + "/" + h.String() }

func manifestFolder(j JobID) string { return manifestsDir + "/" + j.String() }

func manifestName(id ID) string { return manifestsDir + "/" + id.String() }

// trashName returns the name of a folder below trash/. Each folder is filled once, by a single collector: a name in it
// always means the same object, so a collector can remove objects later that it has listed and judged.
func trashName(g generationNumber, unique string) string { return g.String() + "-" + unique }

func parseTrash(s string) (generationNumber, bool) {
	g, _, _ := strings.Cut(s, "-")
	return parseGeneration(g)
}

// deletedName is a manifest's name after the move out of manifests/; unique distinguishes two manifests that had the
// same place one after the other. The name differs from all names of chunks.
func deletedName(id ID, unique string) string {
	return strings.ReplaceAll(id.String(), "/", ",") + "," + unique
}

// parseDeleted is the inverse of deletedName.
func parseDeleted(name string) (ID, bool) {
	i := strings.LastIndexByte(name, ',')
	if i < 0 {
		return ID{}, false
	}
	id, err := ParseID(strings.ReplaceAll(name[:i], ",", "/"))
	return id, err == nil && deletedName(id, name[i+1:]) == name
}

// generationNumber counts how often a collector moved objects out of sight.
type generationNumber uint64

// String has as many digits as the largest, so that names sort.
func (g generationNumber) String() string { return fmt.Sprintf("%020d", uint64(g)) }

func parseGeneration(s string) (generationNumber, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	g := generationNumber(n)
	return g, err == nil && g.String() == s
}

// claimKind is the purpose of a claim.
type claimKind string

const (
	uploadClaim claimKind = "upload"
	readClaim   claimKind = "read"
	spaceClaim  claimKind = "space"
)

// claimName is a claim's folder below leases/.
type claimName struct {
	since  generationNumber
	kind   claimKind
	unique string
}

func (l claimName) String() string {
	return l.since.String() + "-" + string(l.kind) + "-" + l.unique
}

func (l claimName) folderPath() string { return claimsDir + "/" + l.String() }

func (l claimName) beatPath() string { return l.folderPath() + "/beat" }

func (l claimName) manifestPath() string { return l.folderPath() + "/manifest" }

func parseClaim(s string) (claimName, bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 3 || len(parts[2]) == 0 || len(parts[2]) > 64 {
		return claimName{}, false
	}
	g, ok := parseGeneration(parts[0])
	l := claimName{g, claimKind(parts[1]), parts[2]}
	known := l.kind == uploadClaim || l.kind == readClaim || l.kind == spaceClaim
	return l, ok && known
}
