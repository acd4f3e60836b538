// Two agents do a piece of work through a Writ server with each of the official
// TypeScript clients: one submits a job and follows it, the other claims and commits it.
//
//   node work.mjs http://127.0.0.1:7878/mcp TOKEN writ mcp --server http://127.0.0.1:7878
//
// What comes behind the token is a command that speaks over stdio. It inherits WRIT_TOKEN.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import * as modern from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, token, command, ...args] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const stdio = { command, args, env: { PATH: process.env.PATH, HOME: process.env.HOME, WRIT_TOKEN: token } };
const me = { name: 'writ-test', version: '1' };

const ways = {
	'sdk over HTTP': ['2025-11-25', () => new Client(me), () => new StreamableHTTPClientTransport(new URL(url), { requestInit })],
	'sdk over stdio': ['2025-11-25', () => new Client(me), () => new StdioClientTransport(stdio)],
	'client over HTTP, revision with a handshake': ['2025-11-25', () => new modern.Client(me),
		() => new modern.StreamableHTTPClientTransport(new URL(url), { requestInit })],
	'client over HTTP': ['2026-07-28', () => new modern.Client(me, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
		() => new modern.StreamableHTTPClientTransport(new URL(url), { requestInit })],
	'client over stdio': ['2026-07-28', () => new modern.Client(me, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
		() => new ModernStdio(stdio)],
};

async function connect([version, client, transport]) {
	const c = client();
	await c.connect(transport());
	assert.equal(c.getNegotiatedProtocolVersion?.() ?? version, version);
	await c.listTools(); // from now on the client checks what is answered against the schemas
	return c;
}

async function call(c, name, input) {
	const answer = await c.callTool({ name, arguments: input });
	const text = JSON.parse(answer.content[0].text);
	if (!answer.isError) assert.deepEqual(answer.structuredContent, text);
	return { refused: answer.isError ? text : undefined, ...text };
}

for (const [name, way] of Object.entries(ways)) {
	const boss = await connect(way);
	const worker = await connect(way);
	const key = randomUUID();
	const request = {
		request_id: key, idempotency_key: key, operation: 'build', repository_id: 'r', base_ref: 'main',
		base_sha: 'a'.repeat(40), owner_id: 'tester', session_id: 's', tenant_id: 'local',
	};
	const job = await call(boss, 'job_submit', { request });
	assert.equal(job.state, 'ready');
	assert.equal((await call(boss, 'job_submit', { request })).deduplicated, true);
	assert.equal((await call(boss, 'job_submit', { request: { ...request, base_ref: 'other' } })).refused.code, 'duplicate_request');

	const followed = call(boss, 'job_get', { job_id: job.job_id, wait_s: 30, until: 'terminal' });
	const { claim } = await call(worker, 'work_claim_next', { kind: 'repository.build', worker: 'w', wait_s: 30 });
	assert.equal(claim.job_id, job.job_id);
	await call(worker, 'work_heartbeat', { job_id: job.job_id, claim });
	const end = { job_id: job.job_id, claim, outcome: 'succeeded', result_ref: 'artifact:1' };
	assert.equal((await call(worker, 'work_commit', end)).status, 'committed');
	assert.equal((await call(worker, 'work_heartbeat', { job_id: job.job_id, claim: { ...claim, fencing_token: claim.fencing_token + 1 } })).refused.code,
		'stale_fence_duplicate_effect');
	assert.equal((await followed).state, 'succeeded');
	assert.equal((await call(boss, 'job_result', { job_id: job.job_id })).result_ref, 'artifact:1');

	const { contents } = await boss.readResource({ uri: `writ://jobs/${job.job_id}` });
	assert.equal(JSON.parse(contents[0].text).result_ref, 'artifact:1');
	await assert.rejects(boss.readResource({ uri: 'writ://nothing' }));
	await boss.close();
	await worker.close();
	console.log(`${name}: submitted, claimed, committed, followed`);
}
