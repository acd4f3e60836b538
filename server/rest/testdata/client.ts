// A client of Writ in TypeScript, made from the types that openapi-typescript
// derives from the served document. CI compiles it; it is not run.
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.js";

type View = components["schemas"]["View"];

const writ = createClient<paths>({
  baseUrl: "http://127.0.0.1:8440",
  headers: { Authorization: "Bearer dev:tenant-a:actor-a" },
});

export async function submit(): Promise<string> {
  const { data, error } = await writ.POST("/v1/jobs", {
    params: { query: { max_attempts: 2 }, header: { "Idempotency-Key": "idem-1" } },
    body: {
      request_id: "req-1",
      idempotency_key: "idem-1",
      operation: "build",
      repository: { repository_id: "repo-a" },
      base_ref: "main",
      base_sha: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      owner_id: "actor-a",
      session_id: "session-a",
      tenant_id: "tenant-a",
    },
  });
  if (error) {
    throw new Error(`${error.code} ${error.field ?? ""}: ${error.detail}`);
  }
  return data.job_id;
}

export async function work(): Promise<string | undefined> {
  const claimed = await writ.POST("/v1/claims", {
    body: { kind: "repository.build", worker: "worker-1", lease_ttl_s: 60, wait_s: 20, claim_request_id: "c-1" },
  });
  const claim = claimed.data?.claim;
  if (!claim) {
    return undefined;
  }
  // The whole claim goes back as it came.
  const { data } = await writ.POST("/v1/jobs/{id}/commit", {
    params: { path: { id: claim.job_id } },
    body: { claim, outcome: "succeeded", result_ref: "result:1" },
  });
  return data?.status;
}

export async function* all(): AsyncGenerator<View> {
  let cursor: string | undefined;
  do {
    const { data } = await writ.GET("/v1/jobs", { params: { query: { state: ["ready", "failed"], cursor } } });
    yield* data?.items ?? [];
    cursor = data?.next_cursor ?? undefined;
  } while (cursor);
}

export function holder(view: View): string {
  return view.lease === null ? "nobody" : view.lease.owner;
}
