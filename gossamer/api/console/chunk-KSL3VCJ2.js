var a=()=>location.hash.slice(2).split("?")[0]||"overview",s=e=>new URLSearchParams(location.hash.split("?")[1]??"").get(e)??"";export{a,s as b};
