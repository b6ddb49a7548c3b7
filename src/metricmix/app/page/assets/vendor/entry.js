export { select } from "d3-selection";
export { zoom, zoomIdentity } from "d3-zoom";
import "d3-transition";
export { quadtree } from "d3-quadtree";
