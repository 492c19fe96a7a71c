// Writes in which order pods of openb came to kubernetes-scheduler-simulator (8f3d641), and in which order it named the
// nodes, for a seed:
//
//	go run orders.go PODS.csv[.gz] NODES.csv SEED OUT      (Go up to 1.19)
//
// OUT.order and OUT.ranks are what `order:` and `ranks:` of a scenario read. The numbers are those of Go's math/rand, which
// is why this is a program of Go: one is thrown away, the pods by name are shuffled, copies of pods drawn among them follow
// until the next one's thousandths of a GPU would exceed 130 % of what there is, ten more are thrown away, and the nodes by
// name are permuted.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"log"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
)

type pod struct {
	name string
	// GPUs, and thousandths of each.
	gpus, milli int64
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: go run orders.go PODS.csv[.gz] NODES.csv SEED OUT")
	}
	var named []pod
	for _, row := range table(os.Args[1]) {
		one := pod{row["name"], number(row["num_gpu"]), number(row["gpu_milli"])}
		if one.gpus == 0 {
			one.milli = 0
		}
		named = append(named, one)
	}
	sort.Slice(named, func(a, b int) bool { return named[a].name < named[b].name })
	var nodes []string
	var most int64
	for _, row := range table(os.Args[2]) {
		nodes = append(nodes, row["sn"])
		most += number(row["gpu"]) * 1300
	}
	sort.Strings(nodes)

	rand.Seed(number(os.Args[3]))
	rand.Int()
	coming := append([]pod{}, named...)
	rand.Shuffle(len(coming), func(a, b int) { coming[a], coming[b] = coming[b], coming[a] })
	var asked int64
	for _, one := range coming {
		asked += one.gpus * one.milli
	}
	if asked > most {
		for asked > most {
			at := rand.Intn(len(coming))
			asked -= coming[at].gpus * coming[at].milli
			coming = append(coming[:at], coming[at+1:]...)
		}
	} else {
		for copies := 0; ; copies++ {
			one := named[rand.Intn(len(named))]
			if asked+one.milli > most {
				break
			}
			asked += one.gpus * one.milli
			one.name = fmt.Sprintf("%s-tuned-%d", one.name, copies)
			coming = append(coming, one)
		}
	}
	for draws := 0; draws < 10; draws++ {
		rand.Int63()
	}
	ranks := rand.Perm(len(nodes))

	write(os.Args[4]+".order", len(coming), func(at int) string { return coming[at].name })
	write(os.Args[4]+".ranks", len(nodes), func(at int) string { return fmt.Sprintf("%d %s", ranks[at], nodes[at]) })
}

// The rows of a file with a header.
func table(path string) []map[string]string {
	file, err := os.Open(path)
	check(err)
	defer file.Close()
	var text io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		text, err = gzip.NewReader(file)
		check(err)
	}
	lines, err := csv.NewReader(text).ReadAll()
	check(err)
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for at, name := range lines[0] {
			row[name] = line[at]
		}
		rows = append(rows, row)
	}
	return rows
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	check(err)
	return value
}

func write(path string, count int, line func(int) string) {
	file, err := os.Create(path)
	check(err)
	out := bufio.NewWriter(file)
	for at := 0; at < count; at++ {
		fmt.Fprintln(out, line(at))
	}
	check(out.Flush())
	check(file.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
