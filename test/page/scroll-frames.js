// Runs in the browser: how long each frame took while the list is scrolled, in small steps and large ones, sorted.
(async () => {
  const box = document.getElementById("rows");
  const took = [];
  let last = performance.now();
  for (let at = 0; at < 120; at++) {
    box.scrollTop += at % 20 === 19 ? 40_000 : 900;
    await new Promise((resolve) => requestAnimationFrame(resolve));
    took.push(performance.now() - last);
    last = performance.now();
  }
  return took.slice(1).sort((a, b) => a - b);
})();
