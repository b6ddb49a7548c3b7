// For a page that a server gave out: asks it for the path between two items, by their numbers.
window.metricmixPath = async (i, j, chains) => {
  const answer = await fetch(`${chains ? "chain" : "path"}/${i}/${j}`, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
};
