// SPDX-License-Identifier: Apache-2.0
/* What is asked of the server. Every request goes to the host that the page came from. */

const TOKEN = 'twinrun-token';

export class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

// For this tab alone, and gone with it.
export const setToken = (token: string): void =>
  token ? sessionStorage.setItem(TOKEN, token) : sessionStorage.removeItem(TOKEN);

function headers(): HeadersInit {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function ask(path: string, signal?: AbortSignal): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { headers: headers(), signal, cache: 'no-store' });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, 'The server does not answer.');
  }
  if (answer.ok) return answer;
  let why = `The server answers ${answer.status}.`;
  try {
    const said: unknown = JSON.parse(await answer.text());
    if (said && typeof said === 'object' && 'error' in said) why = String(said.error);
  } catch { /* no JSON: the status alone is said */ }
  if (answer.status === 401) dispatchEvent(new Event('token-wanted'));
  throw new Refused(answer.status, why);
}

export async function get<T>(
  path: string, parameters: Record<string, string | number> = {}, signal?: AbortSignal
): Promise<T> {
  const query = new URLSearchParams(Object.entries(parameters).map(([k, v]) => [k, String(v)])).toString();
  return (await ask(`/api/v1/${path}${query && '?' + query}`, signal)).json() as Promise<T>;
}

/** Pages of a list, newest first, until `most` rows were given or `enough` says so. */
export async function pages<T>(
  path: string, key: string, most: number, parameters: Record<string, string>,
  take: (rows: T[]) => boolean | void, signal?: AbortSignal
): Promise<{ whole: boolean }> {
  let before: string | null = null;
  for (let got = 0; got < most;) {
    const limit = Math.min(1000, most - got);
    const more: Record<string, string | number> = before === null ? { limit } : { limit, before };
    const page: Record<string, unknown> & { next: string | null } =
      await get(path, { ...parameters, ...more }, signal);
    const rows = page[key] as T[];
    got += rows.length;
    if (take(rows) === false) return { whole: false };
    before = page.next;
    if (before === null) return { whole: true };
  }
  return { whole: false };
}

export interface Message {
  kind: string;
  data: unknown;
}

/** The messages of one connection, until it ends. */
async function* messages(signal: AbortSignal): AsyncGenerator<Message | null> {
  const body = (await ask('/api/v1/events', signal)).body;
  if (!body) return;
  yield null; // it stands
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const field = (name: string) => block.split('\n').filter(l => l.startsWith(name + ':'))
        .map(l => l.slice(name.length + 1).trim()).join('\n');
      const kind = field('event');
      if (kind) yield { kind, data: JSON.parse(field('data') || '{}') };
    }
  }
}

const pause = (ms: number) => new Promise(done => setTimeout(done, ms));

/**
 * Follows the server for good. EventSource would be shorter, but cannot send a token. After a break
 * `reset` is given: what happened meanwhile is in the lists.
 */
export async function follow(
  take: (m: Message) => void, stands: (live: boolean, why?: string) => void
): Promise<never> {
  for (let wait = 1000, before = false; ;) {
    const end = new AbortController();
    const again = () => end.abort();
    addEventListener('token-changed', again, { once: true });
    let why: string | undefined;
    try {
      for await (const m of messages(end.signal)) {
        if (m) take(m);
        else {
          stands(true);
          wait = 1000;
          if (before) take({ kind: 'reset', data: {} });
          before = true;
        }
      }
    } catch (error) {
      if (error instanceof Refused && error.status) why = error.message;
    }
    removeEventListener('token-changed', again);
    stands(false, why);
    if (!end.signal.aborted)
      await Promise.race([pause(wait), new Promise(done => addEventListener('token-changed', done, { once: true }))]);
    wait = Math.min(wait * 2, 30000);
  }
}
