# `callPackage ./lazurite.nix { }`. Not built: there is no Nix store on the machines of the project.
{ lib, stdenv, fetchurl, autoPatchelfHook }:

let
  programs = {
@if linux-x64@
    x86_64-linux = {
      url = "@URL linux-x64@";
      sha256 = "@SHA256 linux-x64@";
    };
@end@
@if linux-arm64@
    aarch64-linux = {
      url = "@URL linux-arm64@";
      sha256 = "@SHA256 linux-arm64@";
    };
@end@
@if darwin-arm64@
    aarch64-darwin = {
      url = "@URL darwin-arm64@";
      sha256 = "@SHA256 darwin-arm64@";
    };
@end@
@if darwin-x64@
    x86_64-darwin = {
      url = "@URL darwin-x64@";
      sha256 = "@SHA256 darwin-x64@";
    };
@end@
  };
  system = stdenv.hostPlatform.system;
in
stdenv.mkDerivation {
  pname = "lazurite";
  version = "@VERSION@";
  src = fetchurl (programs.${system} or (throw "lazurite: there is no program for ${system}"));
  # The program is linked with the C library and libgcc_s.
  nativeBuildInputs = lib.optional stdenv.hostPlatform.isLinux autoPatchelfHook;
  buildInputs = lib.optional stdenv.hostPlatform.isLinux stdenv.cc.cc.lib;
  installPhase = "install -D -m 755 bin/lazurite $out/bin/lazurite";
  meta = {
    description = "Azure-compatible Blob, Queue and Table storage in one program";
    homepage = "@REPOSITORY@";
    license = lib.licenses.mit;
    mainProgram = "lazurite";
    platforms = builtins.attrNames programs;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
  };
}
