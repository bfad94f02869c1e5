import BlueZ
import Glibc
package import OTALinks
import OTASigning
import SystemPackage

/// The records of the bonds that otaflash has made, in the state folder.
///
/// BlueZ does not report whether a bond is authenticated, so otaflash remembers it. A record is an empty file in the folder `bonds`, whose
/// name has the addresses of the adapter and the device. A record is removed as soon as bluetoothd reports the device without a bond. If a
/// record cannot be written, the bond is unknown later, and `--passkey` refuses it.
package struct BondFiles: BondRecords {
    package init() {}

    package func isAuthenticated(_ bond: Bond) -> Bool? {
        for isAuthenticated in [false, true] {
            guard let path = Self.path(bond, isAuthenticated) else { return nil }
            let status = try? path.stat(followTargetSymlink: false)
            if status?.type == .regular { return isAuthenticated }
        }
        return nil
    }

    package func record(_ bond: Bond, isAuthenticated: Bool?) {
        for old in [false, true] {
            if let path = Self.path(bond, old) { unlink(path.string) }
        }
        guard let isAuthenticated, let path = Self.path(bond, isAuthenticated) else { return }
        try? Folder.create(path.removingLastComponent())
        let file = try? FileDescriptor.open(
            path, .writeOnly, options: [.create, .exclusiveCreate, .noFollow, .closeOnExec],
            permissions: .ownerReadWrite)
        try? file?.close()
    }

    private static func path(_ bond: Bond, _ isAuthenticated: Bool) -> FilePath? {
        guard let state = try? Environment.stateFolder() else { return nil }
        let name = "\(bond.adapter)-\(bond.device)".filter { $0 != ":" }
        return state.appending("bonds").appending(name + (isAuthenticated ? ".authenticated" : ".unauthenticated"))
    }
}
