// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Plot draws the losses of two trainings over each other, and below them which jobs had which GPUs,
// and when. The undisturbed training may have made more steps. Plot exits with 1 if a loss of the
// disturbed training, or the hash of the parameters behind the loss, differs.
//
//	plot UNDISTURBED.losses DISTURBED.losses RUNS MARKS OUT.png
//
// A line of losses is "step loss time hash"; a line of runs is sacct's output for a run:
// "job|start|end|nodes|allocated TRES"; a line of marks is "seconds text". All times are seconds
// since 1970.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// point is a step of a training.
type point struct {
	step int
	text string // loss and hash, as they were printed
	loss float64
	time float64
}

// run is a job on its nodes, from a start to an end.
type run struct {
	job, nodes string
	gpus       int
	start, end float64
}

// mark is an event, with its time.
type mark struct {
	time float64
	text string
}

func main() {
	same, err := drawPlot(os.Args[1:])
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(2)
	case !same:
		fmt.Fprintln(os.Stderr, "plot: the losses differ")
		os.Exit(1)
	}
}

func drawPlot(args []string) (same bool, err error) {
	if len(args) != 5 {
		return false, errors.New("want UNDISTURBED.losses DISTURBED.losses RUNS MARKS OUT.png")
	}
	calm, err := readLosses(args[0])
	if err != nil {
		return false, err
	}
	moved, err := readLosses(args[1])
	if err != nil {
		return false, err
	}
	runs, err := readRuns(args[2])
	if err != nil {
		return false, err
	}
	marks, err := readMarks(args[3])
	if err != nil {
		return false, err
	}
	same = equalSteps(calm, moved)
	calm = calm[:min(len(calm), len(moved))]
	out, err := os.Create(args[4])
	if err != nil {
		return same, err
	}
	return same, errors.Join(png.Encode(out, drawPicture(calm, moved, runs, marks, same)), out.Close())
}

// equalSteps reports whether the steps of moved are the first steps of calm. Calm may have made
// more steps.
func equalSteps(calm, moved []point) bool {
	if len(calm) < len(moved) {
		return false
	}
	for i := range moved {
		if calm[i].step != moved[i].step || calm[i].text != moved[i].text {
			return false
		}
	}
	return true
}

func readLosses(path string) ([]point, error) {
	var all []point
	err := eachLine(path, func(f []string) error {
		if len(f) != 4 {
			return errors.New("want: step loss time hash")
		}
		step, err := strconv.Atoi(f[0])
		if err != nil {
			return err
		}
		loss, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return err
		}
		at, err := strconv.ParseFloat(f[2], 64)
		all = append(all, point{step, f[1] + " " + f[3], loss, at})
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: empty", path)
	}
	return all, err
}

func readRuns(path string) ([]run, error) {
	var all []run
	err := eachLine(path, func(words []string) error {
		f := strings.Split(strings.Join(words, " "), "|")
		if len(f) != 5 {
			return errors.New("want: job|start|end|nodes|TRES")
		}
		r := run{job: f[0], nodes: f[3]}
		var err, errEnd error
		r.start, err = strconv.ParseFloat(f[1], 64)
		r.end, errEnd = strconv.ParseFloat(f[2], 64)
		if err != nil || errEnd != nil { // the job has not run
			return nil
		}
		for t := range strings.SplitSeq(f[4], ",") {
			if n, ok := strings.CutPrefix(t, "gres/gpu="); ok {
				if r.gpus, err = strconv.Atoi(n); err != nil {
					return err
				}
			}
		}
		all = append(all, r)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: no run", path)
	}
	return all, err
}

func readMarks(path string) ([]mark, error) {
	var all []mark
	err := eachLine(path, func(f []string) error {
		at, err := strconv.ParseFloat(f[0], 64)
		all = append(all, mark{at, strings.Join(f[1:], " ")})
		return err
	})
	return all, err
}

func eachLine(path string, f func([]string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	for n := 1; s.Scan(); n++ {
		if err := f(strings.Fields(s.Text())); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return s.Err()
}

const (
	width, height = 960, 770
	left, right   = 90, 20
	top, bottom   = 50, 390 // of the curves
	bandTop       = height - 320
	bandHeight    = 30
	gap           = 10
	glyph         = 7 // width of a letter
)

var (
	white = color.RGBA{255, 255, 255, 255}
	black = color.RGBA{30, 30, 30, 255}
	grey  = color.RGBA{200, 200, 200, 255}
	blue  = color.RGBA{150, 190, 235, 255}
	red   = color.RGBA{200, 40, 40, 255}
	green = color.RGBA{60, 150, 80, 255}
)

func drawPicture(calm, moved []point, runs []run, marks []mark, same bool) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(img, img.Bounds(), image.NewUniform(white), image.Point{}, draw.Src)
	verdict := "equal in every bit"
	if !same {
		verdict = "THEY DIFFER"
	}
	drawLabel(img, left, 24, black, fmt.Sprintf("loss of %d steps: undisturbed (wide, blue) and disturbed (red): %s", len(calm), verdict))
	low, high := 0.0, 0.0
	for _, p := range append(append([]point{}, calm...), moved...) {
		low, high = math.Min(low, p.loss), math.Max(high, p.loss)
	}
	each := roundStep(high-low, 6)
	low, high = math.Floor(low/each)*each, math.Ceil(high/each)*each
	x := func(step int) int { return left + (step-1)*(width-left-right)/max(1, len(calm)-1) }
	y := func(loss float64) int {
		return top + int((high-loss)/math.Max(high-low, 1e-12)*float64(height-top-bottom))
	}
	for v := low; v <= high+each/2; v += each {
		drawLine(img, left, y(v), width-right, y(v), 0, grey)
		drawRight(img, left-10, y(v)+4, strconv.FormatFloat(v, 'g', 4, 64))
	}
	drawLabel(img, 8, top-10, black, "loss")
	ticks := max(1, int(roundStep(float64(len(calm)), 12)))
	for step := ticks; step <= len(calm); step += ticks {
		drawRight(img, x(step)+glyph, height-bottom+18, strconv.Itoa(step))
	}
	drawLabel(img, 8, height-bottom+18, black, "step")
	drawCurve(img, calm, x, y, 3, blue)
	drawCurve(img, moved, x, y, 0, red)
	drawTimeline(img, runs, marks)
	return img
}

// roundStep returns the smallest of 1, 2 and 5 times a power of ten of which at most so many fit into a span.
func roundStep(span float64, most int) float64 {
	least := math.Max(span, 1e-9) / float64(most)
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= least {
			return n * power
		}
	}
	return 10 * power
}

func drawCurve(img *image.RGBA, points []point, x func(int) int, y func(float64) int, thick int, c color.RGBA) {
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		drawLine(img, x(a.step), y(a.loss), x(b.step), y(b.loss), thick, c)
	}
}

// band is a job's row: its runs, each as high as its share of the most GPUs that the job had at a time. Runs at the
// same time are stacked.
type band struct {
	job   string
	runs  []run
	below []int // GPUs of the runs below each run
	most  int
}

// groupRuns makes the band of each job, in the order of their first runs.
func groupRuns(runs []run) []*band {
	var all []*band
	of := map[string]*band{}
	for _, r := range runs {
		b := of[r.job]
		if b == nil {
			b = &band{job: r.job, most: 1}
			all, of[r.job] = append(all, b), b
		}
		below := 0
		for i, other := range b.runs {
			if other.start < r.end && r.start < other.end {
				below = max(below, b.below[i]+other.gpus)
			}
		}
		b.runs, b.below, b.most = append(b.runs, r), append(b.below, below), max(b.most, below+r.gpus)
	}
	return all
}

// drawTimeline draws the jobs' bands, and the marks at their times.
func drawTimeline(img *image.RGBA, runs []run, marks []mark) {
	first, last := runs[0].start, runs[0].end
	for _, r := range runs {
		first, last = math.Min(first, r.start), math.Max(last, r.end)
	}
	x := func(t float64) int {
		return left + int((math.Max(t, first)-first)/math.Max(last-first, 1)*float64(width-left-right))
	}
	drawLabel(img, left, bandTop-12, black, "GPUs of each job, as Slurm accounts for them")
	bands := groupRuns(runs)
	under := bandTop + len(bands)*(bandHeight+gap)
	for i, b := range bands {
		drawLabel(img, 8, bandTop+i*(bandHeight+gap)+bandHeight/2+4, black, b.job)
		draw.Draw(img, image.Rect(left, bandTop+i*(bandHeight+gap), width-right, bandTop+i*(bandHeight+gap)+bandHeight), image.NewUniform(grey), image.Point{}, draw.Src)
	}
	for i, m := range marks {
		drawLine(img, min(x(m.time), width-right), bandTop, min(x(m.time), width-right), under+18*i+22, 0, red)
	}
	for i, b := range bands {
		b.drawRuns(img, bandTop+i*(bandHeight+gap), x)
	}
	for t, each := 0.0, roundStep(last-first, 12); t <= last-first; t += each {
		drawBacked(img, x(first+t)-glyph, under+6, fmt.Sprintf("%.0f s", t))
	}
	for i, m := range marks {
		at := min(x(m.time), width-right)
		if text := m.text; at+8+glyph*len(text) <= width {
			drawBacked(img, at+4, under+18*i+26, text)
		} else {
			drawBacked(img, at-4-glyph*len(text), under+18*i+26, text)
		}
	}
}

// drawRuns draws a job's runs into its band, which begins at y.
func (b *band) drawRuns(img *image.RGBA, y int, x func(time float64) int) {
	for i, r := range b.runs {
		bottom := y + bandHeight - bandHeight*b.below[i]/b.most
		box := image.Rect(x(r.start), bottom-bandHeight*r.gpus/b.most, x(r.end), bottom)
		if b.below[i] > 0 {
			box.Max.Y-- // a line between stacked runs
		}
		draw.Draw(img, box, image.NewUniform(green), image.Point{}, draw.Src)
		if text := fmt.Sprintf("%d on %s", r.gpus, r.nodes); box.Dx() > glyph*len(text)+6 {
			drawLabel(img, box.Min.X+4, bottom-3, white, text)
		}
	}
}

// drawLine draws with Bresenham's algorithm, thick pixels to each side.
func drawLine(img *image.RGBA, x0, y0, x1, y1, thick int, c color.RGBA) {
	dx, dy := abs(x1-x0), -abs(y1-y0)
	sx, sy := signOf(x1-x0), signOf(y1-y0)
	for e := dx + dy; ; {
		for ox := -thick; ox <= thick; ox++ {
			for oy := -thick; oy <= thick; oy++ {
				img.SetRGBA(x0+ox, y0+oy, c)
			}
		}
		if x0 == x1 && y0 == y1 {
			return
		}
		e2 := 2 * e
		if e2 >= dy {
			e += dy
			x0 += sx
		}
		if e2 <= dx {
			e += dx
			y0 += sy
		}
	}
}

func drawLabel(img *image.RGBA, x, y int, c color.RGBA, text string) {
	d := font.Drawer{Dst: img, Src: image.NewUniform(c), Face: basicfont.Face7x13, Dot: fixed.P(x, y)}
	d.DrawString(text)
}

// drawRight draws a label that ends at x.
func drawRight(img *image.RGBA, x, y int, text string) {
	drawLabel(img, x-glyph*len(text), y, black, text)
}

// drawBacked draws a label on a white background.
func drawBacked(img *image.RGBA, x, y int, text string) {
	draw.Draw(img, image.Rect(x-2, y-11, x+glyph*len(text)+2, y+3), image.NewUniform(white), image.Point{}, draw.Src)
	drawLabel(img, x, y, black, text)
}

func abs(n int) int { return max(n, -n) }

func signOf(n int) int {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	}
	return 0
}
