// Runs in the browser: scrolls the list in small steps and large ones. Gives how long each frame took, sorted, and
// the most rows that there were at a time.
(async () => {
  const box = document.getElementById("rows");
  const took = [];
  let rows = 0;
  let last = performance.now();
  for (let at = 0; at < 120; at++) {
    box.scrollTop += at % 20 === 19 ? 40_000 : 900;
    await new Promise((resolve) => requestAnimationFrame(resolve));
    took.push(performance.now() - last);
    last = performance.now();
    rows = Math.max(rows, box.querySelectorAll(".row").length);
  }
  return { frames: took.slice(1).sort((a, b) => a - b), rows };
})();
