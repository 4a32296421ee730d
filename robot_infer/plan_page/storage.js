/*
 * Copyright 2026 The robot_infer authors
 *
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */

/* Contiguous against paged storage of drawn lengths. simulate() is that of budget/fragmentation.py,
 * Pool that of budget/sharing.py, with whole numbers alike. */

/* ---- what budget/fragmentation.py and budget/sharing.py compute ---------------------------- */

const storage = plan.storage;

function lengthsOf(median, sigma, longest) {
  return storage.normals.map(normal => Math.floor(
    Math.min(Math.max(median * Math.exp(sigma * normal), 1), longest) + 0.5));
}

function simulate(lengths, block, longest) {
  const slots = lengths.map(one => block === null ? longest : ceilDiv(one, block) * block);
  const used = lengths.reduce((a, b) => a + b, 0), taken = slots.reduce((a, b) => a + b, 0);
  return {
    used, taken, waste: (taken - used) / lengths.length, utilisation: used / taken,
    worst: slots.reduce((most, one, k) => Math.max(most, one - lengths[k]), 0),
  };
}

class Pool {
  constructor(lengths, scheme, block, poolTokens, longest) {
    Object.assign(this, {lengths, scheme, block, pool: poolTokens, longest, next: 0});
    this.paged = scheme === 'PAGES';
    this.stride = Math.max(1, Math.floor(longest / storage.lifetime));
    this.free = this.paged ? Math.floor(poolTokens / block) * block : poolTokens;
    this.spare = this.paged ? Math.floor(this.free / storage.spare) : 0;
    this.live = [];
    this.ranges = [];
    this.back = [];
    this.ended = this.restarted = 0;
  }

  run() {
    const sums = {used: 0, reserved: 0, internal: 0, external: 0, live: 0, ended: 0,
                  restarted: 0};
    for (let step = 0; step < 2 * storage.lifetime; step++) {
      this.admit();
      if (step >= storage.lifetime) this.addTo(sums);
      this.ended = this.restarted = 0;
      this.grow();
    }
    return sums;
  }

  addTo(sums) {
    let used = 0, taken = 0, wanted = 0;
    for (const one of this.live) {
      used += one.written;
      taken += one.size;
      wanted += Math.min(one.size, one.length);
    }
    sums.used += used;
    sums.reserved += wanted - used;
    sums.internal += taken - wanted;
    sums.external += this.pool - taken;
    sums.live += this.live.length;
    sums.ended += this.ended;
    sums.restarted += this.restarted;
  }

  grow() {
    for (const one of this.live) {
      if (one.gone) continue;
      one.written += Math.min(this.stride, one.length - one.written);
      while (one.size < one.written && !one.gone) {
        const pages = Math.min(ceilDiv(one.written - one.size, this.block),
                               Math.floor(this.free / this.block));
        this.free -= pages * this.block;
        one.size += pages * this.block;
        if (one.size < one.written) this.sendBack();
      }
      if (one.written === one.length && !one.gone) this.end(one);
    }
    this.live = this.live.filter(one => !one.gone);
  }

  sendBack() {
    let k = this.live.length - 1;
    while (this.live[k].gone) k--;
    this.live[k].gone = true;
    this.free += this.live[k].size;
    this.back.push(this.live[k].length);
    this.restarted++;
  }

  end(one) {
    one.gone = true;
    this.free += one.size;
    this.ended++;
    if (!this.paged) this.ranges.splice(this.ranges.findIndex(([a]) => a === one.start), 1);
  }

  admit() {
    for (;;) {
      const length = this.back.length ? this.back[this.back.length - 1] : this.lengths[this.next];
      const prompt = Math.floor((length + 1) / 2);
      const size = {LONGEST: this.longest, KNOWN: length,
                    PAGES: ceilDiv(prompt, this.block) * this.block}[this.scheme];
      const place = this.room(size);
      if (place === null) return;
      if (this.back.length) this.back.pop();
      else this.next = (this.next + 1) % this.lengths.length;
      this.free -= size;
      this.live.push({length, written: prompt, size, start: place.start, gone: false});
      if (!this.paged) this.ranges.splice(place.index, 0, [place.start, place.start + size]);
    }
  }

  room(size) {
    if (this.paged) {
      return size + (this.live.length ? this.spare : 0) <= this.free ? {start: 0} : null;
    }
    if (size > this.free) return null;
    let end = 0;
    for (let index = 0; index < this.ranges.length; index++) {
      if (this.ranges[index][0] - end >= size) return {start: end, index};
      end = this.ranges[index][1];
    }
    return this.pool - end >= size ? {start: end, index: this.ranges.length} : null;
  }
}

/* ---- the page ------------------------------------------------------------------------------ */

const STORAGE_NAMES = ['longest', 'median', 'spread', 'block'];
const storageSliders = Object.fromEntries(
  STORAGE_NAMES.map(name => [name, byId(`slider-${name}`)]));
const KINDS = ['used', 'reserved', 'internal', 'external'];
const SVG = 'http://www.w3.org/2000/svg';

function storageChoice() {
  const stop = name => storage.stops[name][Number(storageSliders[name].value)];
  const longest = stop('longest');
  return {longest, median: Math.max(1, Math.floor(longest * stop('median') / 64)),
          spread: stop('spread') / 10, block: stop('block')};
}

function showPool(choice, lengths) {
  const pool = storage.slots * choice.longest;
  for (const scheme of ['LONGEST', 'KNOWN', 'PAGES']) {
    const sums = new Pool(lengths, scheme, choice.block, pool, choice.longest).run();
    const whole = pool * storage.lifetime, element = byId(`pool-${scheme}`);
    KINDS.forEach(kind => {
      const segment = element.querySelector(`.${kind}`), cell = byId(`share-${scheme}-${kind}`);
      segment.style.width = `${100 * sums[kind] / whole}%`;
      cell.textContent = `${(100 * sums[kind] / whole).toFixed(1)} %`;
      cell.dataset.tokens = sums[kind];
      segment.title = `${kind}: ${cell.textContent}`;
    });
    const live = (sums.live / storage.lifetime).toFixed(1);
    byId(`live-${scheme}`).textContent = live;
    byId(`ended-${scheme}`).textContent = count(sums.ended);
    byId(`restarted-${scheme}`).textContent = scheme === 'PAGES' ? count(sums.restarted) : '-';
    element.querySelector('.in-use').textContent =
      `${(100 * sums.used / whole).toFixed(1)} % used, ${live} at once`;
    element.querySelector('.bar').setAttribute('aria-label', KINDS.map(
      kind => `${kind} ${(100 * sums[kind] / whole).toFixed(1)} %`).join(', '));
  }
}

function svg(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function drawWaste(choice, lengths) {
  const plot = byId('waste-plot'), width = Math.max(260, plot.clientWidth), height = 260;
  const left = 50, right = 14, top = 14, bottom = 42;
  const blocks = storage.stops.block, contiguous = simulate(lengths, null, choice.longest).waste;
  const most = Math.max(blocks[blocks.length - 1], contiguous) * 1.6, least = 0.25;
  const x = block => left + (width - left - right) * Math.log2(block) /
    Math.log2(blocks[blocks.length - 1]);
  const y = waste => top + (height - top - bottom) * Math.log(most / Math.max(waste, least)) /
    Math.log(most / least);
  const drawing = svg('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img'});
  drawing.setAttribute('aria-label', 'Waste per sequence against tokens of a page; the table ' +
    'below has the numbers');
  for (let power = 1; power <= most; power *= 10) {
    drawing.append(svg('line', {x1: left, x2: width - right, y1: y(power), y2: y(power),
                                class: 'grid'}),
                   svg('text', {x: left - 6, y: y(power) + 4, 'text-anchor': 'end'},
                       count(power)));
  }
  blocks.forEach((block, k) => {
    if (k % 2 === 0) {
      drawing.append(svg('text', {x: x(block), y: height - bottom + 18, 'text-anchor': 'middle'},
                         `${block}`));
    }
  });
  drawing.append(svg('text', {x: (left + width - right) / 2, y: height - 6,
                              'text-anchor': 'middle'}, 'tokens of a page'));
  const wastes = blocks.map(block => simulate(lengths, block, choice.longest).waste);
  const path = values => values.map((value, k) => `${x(blocks[k])},${y(value)}`).join(' ');
  drawing.append(
    svg('line', {x1: left, x2: width - right, y1: y(contiguous), y2: y(contiguous),
                 class: 'longest'}),
    svg('text', {x: width - right, y: y(contiguous) - 6, 'text-anchor': 'end', class: 'name'},
        'contiguous, longest length'),
    svg('polyline', {points: path(blocks.map(block => block - 1)), class: 'bound'}),
    svg('polyline', {points: path(wastes), class: 'mean'}));
  blocks.forEach((block, k) => drawing.append(svg('circle', {
    cx: x(block), cy: y(wastes[k]), r: block === choice.block ? 6 : 3.2,
    class: block === choice.block ? 'mark now' : 'mark'})));
  plot.replaceChildren(drawing);
}

function showWaste(lengths, longest) {
  for (const row of document.querySelectorAll('#waste tbody tr')) {
    const found = simulate(lengths, row.dataset.block ? Number(row.dataset.block) : null, longest);
    row.querySelector('.mean').textContent = found.waste < 1000
      ? found.waste.toFixed(1) : count(Math.round(found.waste));
    row.querySelector('.worst').textContent = count(found.worst);
    row.querySelector('.utilisation').textContent = `${(100 * found.utilisation).toFixed(1)} %`;
    row.dataset.taken = found.taken;
  }
}

function showStorage() {
  const choice = storageChoice();
  const lengths = lengthsOf(choice.median, choice.spread, choice.longest);
  const words = {
    longest: `${count(choice.longest)} tokens`, median: `${count(choice.median)} tokens`,
    spread: `${choice.spread.toFixed(1)} (two thirds within a factor of ` +
      `${Math.exp(choice.spread).toFixed(1)})`, block: `${choice.block} tokens`};
  STORAGE_NAMES.forEach(name => {
    byId(`output-${name}`).textContent = words[name];
    storageSliders[name].setAttribute('aria-valuetext', words[name]);
  });
  showPool(choice, lengths);
  showWaste(lengths, choice.longest);
  drawWaste(choice, lengths);
}

STORAGE_NAMES.forEach(name => storageSliders[name].addEventListener('input', showStorage));
let plotWidth = 0;
new ResizeObserver(() => {
  const width = byId('waste-plot').clientWidth;
  if (width !== plotWidth) {
    plotWidth = width;
    const choice = storageChoice();
    drawWaste(choice, lengthsOf(choice.median, choice.spread, choice.longest));
  }
}).observe(byId('waste-plot'));
showStorage();
