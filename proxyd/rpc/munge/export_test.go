// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import "time"

// SetProofTime sets the time within which a stranger has to be known. It must be called before all else.
func (g *CredentialCheck) SetProofTime(d time.Duration) { g.proofTime = d }
