package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:3000", "address to listen at")
	json := flag.Bool("json", false, "answer with JSON, as writ serve does, and send no notifications before it")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Printf("http://%s%s\n", l.Addr(), mcp.Path)
		err = http.Serve(l, handler(!*json))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// handler is the handler of writ serve with the fixtures in it. It takes every caller
// for the same one, whose jobs are invented. With events it answers with streams.
func handler(events bool) http.Handler {
	caller := workitem.Principal{Subject: "suite", Tenant: "suite", Owner: "suite", Scopes: workitem.ScopeAdmin}
	jobs := new(resttest.Fake)
	return mcp.NewHandler(mcp.HTTPConfig{
		Version:   "0.0.0",
		Extension: fixtures(events),
		Authenticate: func(*http.Request) (operation.Jobs, workitem.Principal, error) {
			return jobs, caller, nil
		},
	})
}
