// Command writ is the authority server for repository work. See the README.
package main

import (
	"os"

	"github.com/writ-authority/writ/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
