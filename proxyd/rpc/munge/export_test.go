// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import "time"

// SetProofTime sets the time within which a stranger has to be known. It must be called before all else.
func (g *CredentialCheck) SetProofTime(d time.Duration) { g.proofTime = d }

// SetBegan sets when the server began. It must be called before all else.
func (g *CredentialCheck) SetBegan(at time.Time) { g.began = at }

// SetRepeatTime sets the time in which a call is sent again. It must be called before the first call.
func (c *Conn) SetRepeatTime(d time.Duration) { c.repeatTime = d }
