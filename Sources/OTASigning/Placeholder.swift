internal enum Placeholder {}
