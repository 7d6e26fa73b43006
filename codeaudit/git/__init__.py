"""Git plumbing: objects as data, with no setting of the repository in effect. It decides nothing about an audit."""
