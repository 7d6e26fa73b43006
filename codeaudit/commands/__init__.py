"""Commands that are loaded when they are named. Each parses, calls one public function and renders."""
